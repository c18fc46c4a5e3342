// A configuration as a plan, lowered and estimated like any other: its step time and memory are those of `panpipe estimate`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/auto/enumerate.hpp"

namespace panpipe::planner {

struct Exact {
  Configuration configuration;
  double bound = 0;      // of the closed form
  double step_time = 0;  // seconds; 0 = there is no such plan
  double memory = 0;     // bytes, largest device's
  bool fits = false;
  std::shared_ptr<const Plan> plan;
  std::string fault;                                      // why there is no such plan
  std::vector<std::pair<std::string, double>> simulated;  // figures with contention; empty = not simulated

  bool usable() const { return step_time > 0 && fits; }
  bool operator<(const Exact& other) const {
    return step_time != other.step_time ? step_time < other.step_time : configuration < other.configuration;
  }
};

// What collectives cost, by what they carry and between whom: on thousands of devices most of a lowering is to find that out.
class CollectiveMemory {
 public:
  CollectiveCost find(const CostModel& model, CollectiveKind kind, Bytes bytes, const std::vector<int>& devices,
                      const GroupNetwork& network);

 private:
  std::map<std::tuple<CollectiveKind, std::int64_t, double, std::vector<int>>, CollectiveCost> known_;
};

// For one thread. Keeps the workloads it has made.
class Evaluator {
 public:
  explicit Evaluator(Common& common) : common_(common), base_(common.experiment) {}
  Exact evaluate(const Configuration& configuration);
  Exact evaluate(const Configuration& configuration, const Plan& plan);  // with other cuts
  PlanRequest request(const Configuration& configuration);               // what it asks of a plan
  const CostModel& model(const Configuration& configuration) { return variant(configuration).model; }
  const Scenario& scenario() const { return base_.scenario; }
  TaskGraph lowered(const Configuration& configuration, const Plan& plan);
  const std::vector<StageCost>& stages(const Configuration& configuration);
  // Whether the workload has so many stages, and gradients that can be made apart where that is asked for.
  bool can_cut(const Configuration& configuration, bool split_backward);

 private:
  Variant& variant(const Configuration& configuration);
  Common& common_;
  const Experiment& base_;
  CollectiveMemory collectives_;
  std::map<GraphShape, std::unique_ptr<Variant>> variants_;
};

// The scenario's keys that a plan decides, for a user to write down.
std::vector<std::pair<std::string, std::string>> settings_of(const Exact& exact);

// Moves single blocks over the cuts of a plan while that makes it faster.
Exact improve_cuts(Evaluator& evaluator, const Exact& start, int most_evaluations);

}  // namespace panpipe::planner
