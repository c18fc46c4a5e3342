#include "exec/engine/transport/device_mark.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace panpipe::exec {

DeviceMark DeviceMark::on(c10::Device device) {
  if (device.is_cpu()) return {};
  c10::Event event(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return DeviceMark(std::move(event));
}

}  // namespace panpipe::exec
