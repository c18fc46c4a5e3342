// Values from before an update that may have to be taken back.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace panpipe::exec {

class Undo {
 public:
  // Copies what the tensors hold.
  explicit Undo(std::vector<at::Tensor> tensors);
  // Writes it back, bit by bit.
  void restore() const;

 private:
  std::vector<at::Tensor> tensors_, values_;
};

}  // namespace panpipe::exec
