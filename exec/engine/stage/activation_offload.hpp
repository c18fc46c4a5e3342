// Moves activations of one microbatch off the device and back (OFFLOAD, RELOAD).
//
// Autograd keeps the tensors that a forward saves for its backward. While a capture lives, every tensor that autograd saves on
// this thread passes through this class and can later be moved. Only tensors without other holders are moved; parameters, the
// stage's inputs and tensors still being sent stay. On a GPU the copies go to pinned host memory on a separate stream, in
// parallel with compute. On a CPU they are memory copies, so that an order with offloads behaves the same on any machine.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "exec/engine/measure/span_log.hpp"

namespace torch::autograd {
struct Engine;
struct SavedVariableHooks;
}  // namespace torch::autograd

namespace panpipe::exec {

// The engine of every backward: LibTorch's, extended by parking. LibTorch starts autograd's threads for devices once per process,
// with the engine that exists at the first backward, so this one must be installed before it.
torch::autograd::Engine& autograd_engine();

// How autograd stores the tensor that it is saving on this thread; null means LibTorch's own way.
using SavingHooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;
SavingHooks saving_hooks();  // that it would get now

// During its lifetime `asks` supplies the hooks for this thread; it gets those that there would be without it. Null: LibTorch's
// way.
class SavingAnswers {
 public:
  using Asks = std::function<SavingHooks(SavingHooks outer)>;
  explicit SavingAnswers(Asks asks);
  ~SavingAnswers();
  SavingAnswers(const SavingAnswers&) = delete;
  SavingAnswers& operator=(const SavingAnswers&) = delete;

 private:
  friend SavingHooks hooks_of(const SavingAnswers* answers);
  Asks asks_;
  SavingAnswers* before_;
};

// Copies in one direction, for the timeline.
struct CopyNote {
  std::int64_t bytes = 0;
  SpanLog::Moment start{}, end{};
};

class ParkedActivations {
 public:
  explicit ParkedActivations(at::Device device);

  // During its lifetime, tensors that autograd saves on this thread belong to `owner`. Null: nothing is captured.
  struct Capture : SavingAnswers {
    explicit Capture(const ParkedActivations* owner);
  };

  CopyNote offload();
  // A backward also calls this itself if it needs parked tensors.
  CopyNote reload();

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace panpipe::exec
