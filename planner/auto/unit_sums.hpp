// Costs of the stages of a cut: what closed forms stand on. Made once per (tensor degree, microbatch, sequence parallelism).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "costmodel/lowering/stage_table.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/partition.hpp"

namespace panpipe::planner {

constexpr std::size_t kModes = 3;  // Recompute

// One stage for one microbatch on one device; seconds and bytes. Without the jitter of the pipeline's length.
struct StageCost {
  double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0;
  double forward_device = 0, input_device = 0;  // of these, without what the host adds
  double work = 0;  // forward and backward without tensor-parallel collectives: what no order can hide
  double forward_work = 0, input_work = 0, weight_work = 0;  // the same of single passes
  std::int64_t kept = 0, kept_for_weight = 0;
  std::int64_t forward_rise = 0, backward_rise = 0;    // over what is live, while the pass runs
  std::int64_t input_rise = 0;                         // the same of an input gradient apart, with what it leaves for W
  std::int64_t saved = 0, saved_rise = 0;              // without recompute, as Pfeife counts
  std::int64_t elements = 0, given = 0;                // parameters
  std::int64_t gathered = 0;                           // of these, the largest block's weights in bytes
  std::int64_t forward_bytes = 0, backward_bytes = 0;  // handed over to the next stage, and back from it
  double optimizer = 0;                                // measured layers
};

struct Stages {
  std::vector<int> cuts;  // first unit of each stage after the first
  std::vector<StageCost> stages;
  std::vector<std::vector<int>> tied_stages;  // per tied parameter: the stages that use it, each once
};

// Balanced cuts, found once for all workloads whose blocks weigh alike. For several threads.
class BalancedCuts {
 public:
  // Units whose weights are alike, and their cuts by number of stages.
  struct Weighed {
    std::vector<PartitionUnit> units;
    std::map<int, std::vector<int>> cuts;
  };
  // Weights count in so many parts of a unit's mean.
  Weighed& weigh(const std::vector<PartitionUnit>& units, double parts);
  const std::vector<int>& find(Weighed& weighed, int stages);

 private:
  std::mutex lock_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<Weighed>> known_;
};

// How many stages a workload is cut into at most: whole blocks where it has some.
int most_stages_of(const std::vector<UnitCost>& units);

class UnitSums {
 public:
  // Both must outlive it. Launches take the time that they take on one rank: least.
  UnitSums(const CostModel& model, BalancedCuts& balanced);

  int units() const { return count_; }
  bool split_backward() const { return workload_.split_backward; }
  int most_stages() const { return most_stages_; }
  const Stages& table(Recompute mode, int stages);
  const std::vector<TiedParameter>& tied() const { return table_.tied(); }
  // Forward and backward of one microbatch without collectives and host effects, all units: a bound for any order.
  double least_work(Recompute mode) const;

 private:
  StageCost stage(Recompute mode, int first, int end) const;
  bool stages_alike(int first, int other, int units) const;
  void add_boundaries(Stages& table) const;
  std::vector<int> cuts(Recompute mode, int stages);

  const Scenario& scenario_;
  const ModelCosts costs_;  // of one rank: the shape of the workload alone
  BalancedCuts& balanced_;
  const int type_;
  const WorkloadCost& workload_;
  const int count_, most_stages_;
  const StageTable table_;
  double parts_ = 1;  // how finely units are weighed when the model is cut
  std::array<std::vector<PartitionUnit>, kModes> weights_;
  std::array<BalancedCuts::Weighed*, kModes> weighed_{};
  std::array<std::map<int, std::unique_ptr<Stages>>, kModes> tables_;
};

}  // namespace panpipe::planner
