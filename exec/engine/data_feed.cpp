#include "exec/engine/data_feed.hpp"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace panpipe::exec {

DataFeed::DataFeed(at::Device device) : device_(device) {
  if (!device.is_cpu()) copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

at::Tensor DataFeed::on_device(const at::Tensor& value) const {
  if (!copies_) return value;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream computing = guard.getStream(device_);
  c10::Event copied(device_.type());
  at::Tensor there;
  {
    const c10::StreamGuard on_copies(*copies_);
    there = value.pin_memory().to(device_, /*non_blocking=*/true);  // LibTorch keeps pinned memory until its copies are done
    copied.record(*copies_);
  }
  copied.block(computing);
  guard.recordDataPtrOnStream(there.storage().data_ptr(), computing);
  return there;
}

}  // namespace panpipe::exec
