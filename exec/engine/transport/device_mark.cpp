#include "exec/engine/transport/device_mark.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace panpipe::exec {

DeviceMark DeviceMark::on(c10::Device device) {
  if (device.is_cpu()) return {};
  c10::Event event(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return DeviceMark(std::move(event));
}

void DeviceMark::before(c10::Device device, const at::Tensor& value) const {
  if (!event_ || device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  event_->block(guard.getStream(device));
  // Between devices LibTorch copies on the current stream of the source's device, in this thread.
  const c10::Stream reads = guard.getStream(value.device());
  if (value.device() != device) event_->block(reads);
  guard.recordDataPtrOnStream(value.storage().data_ptr(), reads);
}

}  // namespace panpipe::exec
