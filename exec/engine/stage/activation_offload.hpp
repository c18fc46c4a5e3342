// Activations of one microbatch that leave the device and come back (OFFLOAD, RELOAD).
//
// What a forward keeps for its backward is kept by autograd: while a capture lives, everything that autograd saves on this
// thread passes through here and can later be moved. Moved is what nobody else holds; parameters, the stage's inputs and what is
// still being sent stay. On a GPU the copies go to pinned host memory on a stream of their own, beside the computation; on a CPU
// they are copies from memory to memory, so that an order with offloads does what it says on any machine.
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

// The engine that every backward goes through: LibTorch's, which can also park. LibTorch starts autograd's threads for devices
// once per process, with queues of the engine that is there at the first backward, so this one must be in place before it.
torch::autograd::Engine& autograd_engine();

// How autograd holds a tensor that it saves now, on this thread: null is LibTorch's own way.
using SavingHooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;
SavingHooks parking_hooks();  // of the capture that lives, if one does

// Until its end, `asks` answers for this thread, in front of a capture.
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

// One direction's copies, for the timeline.
struct CopyNote {
  std::int64_t bytes = 0;
  std::optional<c10::Event> start, end;  // on a GPU: of the copy stream
};

class ParkedActivations {
 public:
  explicit ParkedActivations(at::Device device);
  ~ParkedActivations();
  ParkedActivations(const ParkedActivations&) = delete;
  ParkedActivations& operator=(const ParkedActivations&) = delete;

  // Until its end, what autograd saves on this thread belongs to `owner`. Null: nothing is captured.
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
  // Also happens by itself when a backward wants what is away.
  CopyNote reload();

 private:
  friend struct ParkingEngine;
  struct Saved;
  struct Moved;
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace panpipe::exec
