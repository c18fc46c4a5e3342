#include "exec/engine/training/undo.hpp"

#include <ATen/core/grad_mode.h>

namespace panpipe::exec {

Undo::Undo(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  const at::NoGradGuard no_graph;
  for (at::Tensor& tensor : tensors_) {
    tensor = tensor.detach();  // the same memory
    values_.push_back(tensor.clone());
  }
}

void Undo::restore() const {
  const at::NoGradGuard no_graph;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(values_[i]);
}

}  // namespace panpipe::exec
