// Data of microbatches on the device that a rank computes on. To a GPU they go through pinned memory on a stream of their own:
// the host does not wait for the copy, and the copy does not wait for the computation that was given to the GPU before.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace panpipe::exec {

class DataFeed {
 public:
  explicit DataFeed(at::Device device);

  // `value` lies on the host. The rank's stream waits for what comes back.
  at::Tensor on_device(const at::Tensor& value) const;

 private:
  at::Device device_;
  std::optional<c10::Stream> copies_;  // on a GPU
};

}  // namespace panpipe::exec
