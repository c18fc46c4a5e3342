// Weights that lie in the host's memory and come to the device for the turns of their stages
// (costmodel/plan/streamed_weights.hpp). The device has two slots, each for the weights of one stage; gradients are summed on the
// device during a turn and on the host behind it, where the optimizer steps.
//
// A weight is one tensor as long as the run lasts, and what it points to is moved into a slot, so that tensors that autograd
// saved of it are whole again when the backward needs them. On a GPU the copies run on streams of their own, in each direction
// one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "costmodel/plan/streamed_weights.hpp"
#include "exec/engine/around_actions.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/rank_site.hpp"

namespace panpipe::exec {

// Throws InputError for state in the host's memory that the executor does not keep there.
void check_hosted_state(const Scenario& scenario, const Plan& plan, const OperatorGraph& graph);

class WeightSlots : public ParameterPlacement, public AroundActions {
 public:
  explicit WeightSlots(RankSite& site);

  // `value` has no memory until its stage's turn; `master` lies on the host.
  bool place(int root, at::Tensor& value, at::Tensor& master) override;
  std::int64_t parameter_bytes() const override;  // of the slots
  std::int64_t gradient_bytes() const override;   // on the device now

  // On the host; a sum over microbatches, and over turns. Set it before the first step.
  void sum_into(int root, at::Tensor gradient) { weights_.at(root).gradient = std::move(gradient); }
  at::Tensor zeros_on_host(const at::Tensor& like) const;  // pinned if copies are asynchronous

  void begin_step();
  void before_action(std::size_t index, bool evaluates) override;
  void after_action(std::size_t index, bool evaluates) override;
  // A backward made this gradient; it is not used any more by the caller.
  void add_gradient(int root, at::Tensor arrived);
  // Waits until all gradients are on the host. No weights are on the device afterwards.
  void finish();
  // The masters have new values.
  void updated();

  // Freed slots are overwritten with NaNs, so that a weight that is read too late or too early shows: for tests.
  static void poison(bool on) { poisons_ = on; }

 private:
  static inline bool poisons_ = false;
  struct Weight {
    at::Tensor value, host, master;  // on the device; on the host, in its type and in the optimizer's
    at::Tensor sum;                  // of gradients, on the device; undefined: none
    at::Tensor gradient;             // on the host
    bool fresh = true;               // the host's gradient has nothing of this step
  };
  struct Part {
    int root = 0;
    std::int64_t offset = 0, bytes = 0;  // in the slot
  };
  struct StageWeights {
    std::vector<Part> parts{};
    std::int64_t bytes = 0, room = 0;  // of the weights; with the gaps between them
    bool adds = true;                  // its passes make gradients
  };
  struct Slot {
    at::Tensor memory;
    int stage = -1;                     // whose weights are there or on their way
    std::optional<c10::Event> arrived;  // on a GPU
  };
  struct Arriving {  // a gradient that is added to others when it is on the host
    int root = 0;
    at::Tensor value;
    std::shared_ptr<c10::Event> there;
  };

  void bring(int stage);
  void fetch(int stage, Slot& slot);
  void copy_piece(const StageWeights& weights, std::int64_t first, std::int64_t end, const Slot& slot);
  void open(Slot& slot);
  void point(const Part& part, const Slot& slot);
  void leave(Slot& slot);
  void take_gradients_away(int stage);
  void take_away(Weight& weight, int root);
  void add_arrived(bool all);

  RankSite& site_;
  std::map<int, StageWeights> stages_;  // of this position
  std::map<int, Weight> weights_;       // by root
  std::vector<WeightTurn> turns_;
  std::vector<int> turn_of_;          // by position in the order, -1 = no pass
  std::vector<std::size_t> slot_of_;  // per turn
  std::map<int, std::size_t> home_;   // by stage: a slot that it fits into
  std::array<Slot, 2> slots_;
  bool begun_ = false;
  std::optional<c10::Stream> coming_, going_;  // on a GPU
  std::vector<Arriving> arriving_;
};

}  // namespace panpipe::exec
