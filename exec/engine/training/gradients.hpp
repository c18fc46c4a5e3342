// The gradients of one rank's parameters, from autograd to the optimizer. They are summed over microbatches in the master's
// element type, over replicas in buckets whose all-reduce starts during the backward, and over ranks that hold the same values (a
// tied parameter, a model with several forward paths, a shard of several tensor-parallel ranks).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/engine/around_actions.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/rank_groups.hpp"
#include "exec/engine/rank_site.hpp"
#include "exec/engine/training/gradient_hooks.hpp"
#include "exec/engine/training/gradient_sets.hpp"

namespace panpipe::exec {

// Pipeline positions that use each trained parameter (by root), or hold rows of it, ascending.
std::map<int, std::vector<int>> holders_of(const OperatorGraph& graph, const StageLayout& layout, const Plan& plan);

// Over all elements together. Each tensor's norm is computed in fp32, because an fp16 norm may overflow, and bf16 has only 8
// bits.
double squared_norm(const std::vector<at::Tensor>& gradients);

class ShardedParameters;
class WeightSlots;

class Gradients : public AroundActions {
 public:
  // Bytes of a bucket: 25 MiB, the default of PyTorch's DistributedDataParallel.
  static constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

  // `sharded` sums the gradients and holds a part of them; null if every replica holds whole sums. `slots`: sums lie on the host;
  // null if on the device. References must outlive the object. All ranks of the run construct it at the same time, because groups
  // are created.
  Gradients(RankSite& site, const SeededParameters& parameters, std::int64_t bucket_bytes, ShardedParameters* sharded,
            WeightSlots* slots);

  void begin_step();
  void before_action(std::size_t index, bool evaluates) override;
  void after_action(std::size_t index, bool evaluates) override;
  // Call it after the last action: starts the remaining reductions, waits for all, and records them on the data lane. of() is
  // complete afterwards.
  void finish();

  // Trained parameters of this rank, by root, ascending; the functions below use this order.
  const std::vector<int>& roots() const { return roots_; }
  // The step's gradient, in the master's element type; zeros if none flowed. If it is divided: this rank's part, flat.
  const at::Tensor& of(std::size_t i) const { return slots_[i].gradient; }
  // True if this rank counts the parameter where each must count only once (norms, dumps, checkpoints).
  bool counts(std::size_t i) const { return slots_[i].counts; }

  // The ranks over which ZeRO divides the parameter: this rank's shard group, or for experts all their holders; nullopt if it is
  // the only one.
  const std::optional<Group>& shard_group(std::size_t i) const;

 private:
  struct Slot {
    at::Tensor value, gradient;
    bool wide = false;    // summed over microbatches in fp32, next to a 2-byte gradient
    bool counts = false;  // see counts()
    bool armed = false;   // the last backward that adds to it is running
    bool ready = false;
    bool late = false;  // summed over ranks other than replicas, which are at different points of the step
    bool once = true;   // read by one operator, so its last backward adds everything at once
    int bucket = -1;
    int stage = -1;               // of that last backward
    std::size_t last_action = 0;  // its index
  };
  struct Bucket {
    at::Tensor flat;
    Group group;
    at::ScalarType type{};
    std::int64_t elements = 0;
    std::vector<std::size_t> slots;
    int stage = -1;
    bool late = false;  // started at the end
    int missing = 0;
    PendingPtr pending;
    SpanLog::Moment started;
  };

  std::vector<int> summed_over(int root, int device) const;
  RankGroups make_own_groups();
  void find_last_actions();
  void make_buckets(const RankGroups& groups, std::int64_t bucket_bytes);
  void make_sets();
  void accumulated(std::size_t slot);
  void make_ready(std::size_t slot);
  void start(Bucket& bucket);

  RankSite& site_;
  std::map<int, std::vector<int>> holders_;
  ShardedParameters* sharded_;
  WeightSlots* weight_slots_;
  std::optional<Group> shard_group_, expert_shard_group_;
  std::vector<int> roots_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::size_t>> arms_;  // by action index
  std::vector<Bucket> buckets_;                 // in starting order
  std::size_t next_bucket_ = 0;
  GradientHooks hooks_;
  GradientSets sets_;
};

}  // namespace panpipe::exec
