#include "exec/engine/transport/device_order.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <sstream>

#include "base/error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

DeviceOrder DeviceOrder::now(const at::Tensor& value) {
  DeviceOrder order;
  if (!value.is_cuda()) return order;
  const c10::impl::VirtualGuardImpl device(value.device().type());
  order.event_ = std::make_shared<c10::Event>(value.device().type());
  order.event_->record(device.getStream(value.device()));
  return order;
}

void DeviceOrder::before(at::Device device, const at::Tensor& value) const {
  if (!event_ || !device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  event_->block(guard.getStream(device));
  // Between devices LibTorch copies on the current stream of the source's device, in this thread.
  const c10::Stream reads = guard.getStream(value.device());
  if (value.device() != device) event_->block(reads);
  guard.recordDataPtrOnStream(value.storage().data_ptr(), reads);
}

std::string describe(at::ScalarType dtype, at::IntArrayRef shape) {
  std::ostringstream text;
  text << dtype << shape;
  return text.str();
}

void check_arrived(const TensorSpec& expected, const at::Tensor& value, int from, const std::string& what) {
  if (value.sizes() == expected.shape && value.scalar_type() == expected.dtype) return;
  throw InternalError(fmt::format("{}: rank {} sent {}, expected {}", what, from, describe(value.scalar_type(), value.sizes()),
                                  describe(expected.dtype, expected.shape)));
}

}  // namespace panpipe::exec
