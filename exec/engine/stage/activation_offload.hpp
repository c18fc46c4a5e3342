// Moves activations of one microbatch off the device and back (OFFLOAD, RELOAD).
//
// Autograd keeps the tensors that a forward saves for its backward. While a capture lives, every tensor that autograd saves on
// this thread passes through this class and can later be moved. Only tensors without other holders are moved; parameters, the
// stage's inputs and tensors still being sent stay. On a GPU the copies go to pinned host memory on a separate stream, in
// parallel with compute. On a CPU they are memory copies, so that an order with offloads behaves the same on any machine.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

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
SavingHooks parking_hooks();  // of the current capture, if any

// During its lifetime `asks` supplies the hooks for this thread, before any capture.
class SavingAnswers {
 public:
  explicit SavingAnswers(std::function<SavingHooks()> asks);
  ~SavingAnswers();
  SavingAnswers(const SavingAnswers&) = delete;
  SavingAnswers& operator=(const SavingAnswers&) = delete;

 private:
  friend struct ParkingEngine;
  std::function<SavingHooks()> asks_;
  SavingAnswers* before_;
};

// Copies in one direction, for the timeline.
struct CopyNote {
  std::int64_t bytes = 0;
  std::optional<c10::Event> start, end;  // on a GPU: on the copy stream
};

class ParkedActivations {
 public:
  explicit ParkedActivations(at::Device device);
  ~ParkedActivations();
  ParkedActivations(const ParkedActivations&) = delete;
  ParkedActivations& operator=(const ParkedActivations&) = delete;

  // During its lifetime, tensors that autograd saves on this thread belong to `owner`. Null: nothing is captured.
  class Capture {
   public:
    explicit Capture(ParkedActivations* owner);
    ~Capture();
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

   private:
    ParkedActivations* before_;
  };

  CopyNote offload();
  // A backward also calls this itself if it needs parked tensors.
  CopyNote reload();

 private:
  friend struct ParkingEngine;
  struct Saved;
  struct Moved;
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace panpipe::exec
