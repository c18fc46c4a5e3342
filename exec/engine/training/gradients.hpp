// The gradients of one rank's parameters, from autograd to the optimizer: summed over microbatches in the master's element type,
// over replicas in buckets whose all-reduce starts while the backward still runs, and over the ranks that hold the same values:
// of a tied parameter, of a model that several forward paths copy, of a shard that several tensor-parallel ranks share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/measure/span_log.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Pipeline positions that use each parameter (by root), ascending; of parameters that are trained.
std::map<int, std::vector<int>> holders_of(const OperatorGraph& graph, const StageLayout& layout, const Plan& plan);

// Of all elements together. Each tensor's norm is formed in fp32: one of fp16 gradients may lie beyond fp16, and bf16 has 8 bits.
double squared_norm(const std::vector<at::Tensor>& gradients);

class Gradients {
 public:
  // Bytes of a bucket: PyTorch's DistributedDataParallel takes 25 MiB.
  static constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

  // References must outlive this; every rank of the run makes one at the same time, since groups are made.
  Gradients(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, const SeededParameters& parameters,
            Transport& transport, Clock::duration deadline, std::int64_t bucket_bytes = kBucketBytes);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  void begin_step();
  // Around each action of the rank's order: before and after entry `index`.
  void before_action(std::size_t index);
  void after_action(std::size_t index);
  // After the last action: starts what is left, waits for all, and notes them on the data lane. Then of() is whole.
  void finish(SpanLog& spans);

  // Trained parameters of this rank, by root, ascending; what follows is in this order.
  const std::vector<int>& roots() const { return roots_; }
  // The step's gradient, in the master's element type; zeros where none flowed.
  const at::Tensor& of(std::size_t i) const { return slots_[i].gradient; }
  // Is this rank the one that counts the parameter where each must count once (norms, dumps, checkpoints)?
  bool counts(std::size_t i) const { return slots_[i].counts; }

  // The replicas of this rank's position and shard; nothing where there is one.
  const std::optional<Group>& replicas() const { return replicas_; }
  std::int64_t bytes() const;  // of buckets and fp32 sums

 private:
  struct Hook;
  struct Slot {
    at::Tensor value, gradient;
    bool wide = false;    // summed over microbatches in fp32 beside a 2-byte gradient
    bool counts = false;  // see counts()
    bool armed = false;   // in the last backward that adds to it
    bool ready = false;
    bool late = false;  // summed over others than the replicas: those are at different points of the step
    bool once = true;   // one segment of one stage uses it: what its last backward adds comes at once
    // On a GPU, where launches count: wide slots of the same set are added to together, after a detour through fp32.
    int set = -1;
    at::Tensor arrived, in_float;
    int bucket = -1;
    int stage = -1;               // of that last backward
    std::size_t last_action = 0;  // its index
  };
  struct Bucket {
    at::Tensor flat;
    Group group;
    std::vector<std::size_t> slots;
    int stage = -1;
    bool late = false;  // started at the end
    int missing = 0;
    PendingPtr pending;
    SpanLog::Moment started;
  };

  using Groups = std::map<std::vector<int>, Group>;  // by ranks
  std::vector<int> summed_over(int root, int device) const;
  void make_groups(Groups& made);
  void find_last_actions();
  void make_buckets(const Groups& groups, std::int64_t bucket_bytes);
  void make_sets();
  void accumulated(std::size_t slot);
  void add_arrived();
  void make_ready(std::size_t slot);
  void start(Bucket& bucket);

  const OperatorGraph& graph_;
  const Plan& plan_;
  const StageLayout& layout_;
  MeshPlace place_;
  std::map<int, std::vector<int>> holders_;
  Transport& transport_;
  Clock::duration deadline_;
  std::optional<Group> replicas_;
  std::vector<int> roots_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::size_t>> arms_;  // by action index
  std::vector<Bucket> buckets_;                 // in the order they are started
  std::size_t next_bucket_ = 0;
  std::vector<std::size_t> arrived_;  // slots of one set whose `arrived` is not in the sum yet
};

}  // namespace panpipe::exec
