// FSDP's part in a replay of the allocator: parameters that are gathered for each unit of it, a block or all that is outside
// blocks, and their gradients, which are reduced to shards. Internal to this folder.
#pragma once

#include <deque>
#include <vector>

#include "costmodel/lowering/lowering.hpp"
#include "costmodel/lowering/replayed_tensors.hpp"

namespace panpipe {

class ReplayedSharding {
 public:
  // The parameters of an FSDP unit, each once, and its name. Nothing is done for one that is none.
  struct Unit {
    static constexpr int kNone = -1;
    int name = kNone;
    std::vector<const ParameterUse*> uses;
  };

  ReplayedSharding(const Lowering& lowering, ReplayedTensors& tensors);

  bool active() const { return sharded_; }  // false where FSDP has no part in the plan
  bool flat() const { return flat_; }       // FSDP 1
  double whole_element() const;             // bytes of a gathered parameter
  double shards(bool experts) const;

  // Of the units [first, end) of a stage, if they are a block; of those outside blocks.
  Unit of_block(const StageInfo& info, int first, int end) const;
  Unit of_root(const StageInfo& info) const;

  void gather(const Unit& unit);
  void drop(const Unit& unit);
  // Behind the backward of its operators, in the step's last microbatch or before.
  void end_backward(const Unit& unit, bool last);

 private:
  void add_uses(const StageInfo& info, int unit, Unit& into) const;
  void give_new_gradients(const Unit& unit);
  void end_flat(const Unit& unit);
  double shard_bytes(const Unit& unit) const;

  const Lowering& lowering_;
  ReplayedTensors& tensors_;
  const bool sharded_, flat_, sums_whole_;
  const double reduced_;  // bytes of a gradient that is reduced
  std::deque<ReplayedTensors::Key> late_;
  int names_ = 0;
};

}  // namespace panpipe
