// Costs of the stages of a cut, the input of closed forms. Computed once per (tensor degree, microbatch, sequence parallelism).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "costmodel/lowering/stage_table.hpp"
#include "costmodel/plan/memory_model.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/partition.hpp"

namespace panpipe::planner {

constexpr std::size_t kModes = 3;  // Recompute

// One stage for one microbatch on one device, in seconds and bytes. Without the jitter that depends on the pipeline's length.
struct StageCost {
  double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0;
  double forward_device = 0, input_device = 0;  // the same on the device, without the host's part
  double work = 0;                              // forward and backward without tensor-parallel collectives: no order can hide it
  double forward_work = 0, input_work = 0, weight_work = 0;  // the same for single passes
  std::int64_t kept = 0, kept_for_weight = 0;
  std::int64_t forward_rise = 0, backward_rise = 0;  // above the live bytes, while the pass runs
  std::int64_t input_rise = 0;                       // the same for a separate input gradient, including the bytes left for W
  HeldParameters held;
  std::int64_t gathered = 0;                           // the largest block's weights, in bytes
  std::int64_t forward_bytes = 0, backward_bytes = 0;  // sent to the next stage, and back from it
  double optimizer = 0;                                // measured layers
};

struct Stages {
  std::vector<int> cuts;  // first unit of each stage after the first
  std::vector<StageCost> stages;
  std::vector<std::vector<int>> tied_stages;  // per tied parameter: its stages, each once
};

// Balanced cuts, computed once for all workloads with equal weights of blocks. Thread-safe.
class BalancedCuts {
 public:
  const std::vector<int>& of(const std::vector<PartitionUnit>& units, int stages);

 private:
  std::mutex lock_;
  std::map<std::pair<int, std::vector<double>>, std::vector<int>> known_;  // by stages and weights
};

// The most stages into which a workload is cut: one per block if it has blocks.
int most_stages_of(const std::vector<UnitCost>& units);

// Sums of gradients over microbatches follow from degrees that these costs do not know: PerParameter has them.
class CostsOfShape final : public ModelCosts {
 public:
  using ModelCosts::ModelCosts;
  Breakdown accumulation(std::int64_t, std::int64_t, int, int) const override { return {}; }
};

class UnitSums {
 public:
  // Both must outlive the object. Launch times are those on one rank, where they are least.
  UnitSums(const CostModel& model, BalancedCuts& balanced);

  int units() const { return count_; }
  bool split_backward() const { return workload_.split_backward; }
  int most_stages() const { return most_stages_; }
  const Stages& table(Recompute mode, int stages);
  const std::vector<TiedParameter>& tied() const { return table_.tied(); }
  // Seconds of a forward and a backward of these units as one stage.
  double time(Recompute mode, int first, int end) const {
    return table_.time(ActionKind::F, mode, first, end) + table_.time(ActionKind::B, mode, first, end);
  }
  // Seconds of the forward and backward of one microbatch over all units, without collectives and host effects: a bound for any
  // order.
  double least_work(Recompute mode) const;

 private:
  StageCost stage(Recompute mode, int first, int end) const;
  bool stages_alike(int first, int other, int units) const;
  void add_boundaries(Stages& table) const;
  std::vector<PartitionUnit> weighed(Recompute mode) const;
  std::vector<int> cuts(Recompute mode, int stages);

  const Scenario& scenario_;
  const MemoryModel memory_;
  const CostsOfShape costs_;  // for one rank: only the workload's shape matters
  BalancedCuts& balanced_;
  const int type_;
  const WorkloadCost& workload_;
  const int count_, most_stages_;
  const StageTable table_;
  double parts_ = 1;  // resolution of unit weights when the model is cut
  std::array<std::vector<PartitionUnit>, kModes> units_;
  std::array<std::map<int, std::unique_ptr<Stages>>, kModes> tables_;
};

}  // namespace panpipe::planner
