// A configuration as a plan, lowered and estimated like any other: its step time and memory equal those of `panpipe estimate`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/lowering/allocator_replay.hpp"
#include "planner/auto/enumerate.hpp"

namespace panpipe::planner {

struct Exact {
  Configuration configuration;
  ScheduleOptions options;  // of the schedule, found for this configuration's memory
  double bound = 0;         // from the closed form, seconds
  double step_time = 0;     // seconds; 0 = no such plan exists
  double memory = 0;        // bytes, on the largest device
  bool fits = false;
  bool cuts_moved = false;   // as long as that helped
  std::vector<double> room;  // by pipeline rank: bytes that its fullest device has left; negative = missing
  std::shared_ptr<const Plan> plan;
  std::optional<std::vector<AllocatorOverhead>> overheads;  // by pipeline rank, once the allocator was replayed
  std::string fault;                                        // reason why no such plan exists
  std::vector<std::pair<std::string, double>> simulated;    // figures with contention; empty = not simulated
  std::optional<RunCost> simulated_run;                     // of the run that the scenario states, from the simulated step

  double simulated_step() const { return simulated.empty() ? kInfinite : simulated.front().second; }
  bool usable() const { return step_time > 0 && fits; }
  bool operator<(const Exact& other) const {
    return step_time != other.step_time ? step_time < other.step_time : configuration < other.configuration;
  }
};

// Caches the costs of collectives by bytes and members. On thousands of devices these queries take most of a lowering's time.
class CollectiveMemory {
 public:
  CollectiveCost find(const CostModel& model, CollectiveKind kind, Bytes bytes, const std::vector<int>& devices,
                      const GroupNetwork& network);

 private:
  std::map<std::tuple<CollectiveKind, std::int64_t, double, std::vector<int>>, CollectiveCost> known_;
};

// Evaluates the configurations of a search. For one thread; keeps the workloads it has made.
class Evaluator {
 public:
  explicit Evaluator(Common& common) : common_(common), base_(common.experiment) {}
  const Common& common() const { return common_; }
  Exact evaluate(const Configuration& configuration, const ScheduleOptions& options = {});
  Exact evaluate(const Configuration& configuration, const Plan& plan);  // with other cuts
  PlanRequest request(const Configuration& configuration, const ScheduleOptions& options = {});
  const CostModel& model(const Configuration& configuration) { return variant(configuration).model; }
  const Scenario& scenario() const { return base_.scenario; }
  TaskGraph lowered(const Configuration& configuration, const Plan& plan);
  const std::vector<StageCost>& stages(const Configuration& configuration);
  const UnitSums& sums(const Configuration& configuration) { return variant(configuration).sums; }

 private:
  Variant& variant(const Configuration& configuration);
  Common& common_;
  const Experiment& base_;
  CollectiveMemory collectives_;
  std::map<Degrees, std::unique_ptr<Variant>> variants_;
};

// The scenario's keys that a plan decides, for the user to write down. `scope`: the operators of selective recompute.
std::vector<std::pair<std::string, std::string>> settings_of(const Exact& exact, const RecomputeScope& scope = {});

// Moves single blocks across the cuts of a plan as long as that makes it faster.
Exact improve_cuts(Evaluator& evaluator, const Exact& start);

// Cuts for a configuration that does not fit with those that balance its stages' times: blocks leave the fullest rank, for the
// rank that is then the least busy, until all fit. Gives up where no rank takes a block in less than `enough` seconds of work.
Exact fit_cuts(Evaluator& evaluator, const Configuration& configuration, double enough);

}  // namespace panpipe::planner
