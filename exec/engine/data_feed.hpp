// Copies microbatches of data to the rank's device. A GPU receives them through pinned memory on a separate stream, so that
// neither the host waits for the copy nor the copy for queued computation.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace panpipe::exec {

class DataFeed {
 public:
  explicit DataFeed(at::Device device);

  // `value` is on the host. The rank's stream waits for the returned tensor.
  at::Tensor on_device(const at::Tensor& value) const;

 private:
  at::Device device_;
  std::optional<c10::Stream> copies_;  // on a GPU
};

}  // namespace panpipe::exec
