// A configuration as a plan, lowered and estimated like any other: its step time and memory are those of `panpipe estimate`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/auto/sweep.hpp"

namespace panpipe::planner {

struct Exact {
  Configuration configuration;
  double bound = 0;      // of the closed form
  double step_time = 0;  // seconds; 0 = there is no such plan
  double memory = 0;     // bytes, largest device's
  bool fits = false;
  std::shared_ptr<const Plan> plan;
  std::string fault;  // why there is no such plan

  bool usable() const { return step_time > 0 && fits; }
  bool operator<(const Exact& other) const {
    return step_time != other.step_time ? step_time < other.step_time : configuration < other.configuration;
  }
};

// For one thread. Keeps the workloads it has made.
class Evaluator {
 public:
  explicit Evaluator(Common& common) : common_(common), base_(common.experiment) {}
  Exact evaluate(const Configuration& configuration);
  Exact evaluate(const Configuration& configuration, const Plan& plan);  // with other cuts
  // The experiment with a configuration's keys in its scenario, until the next call.
  Experiment& at(const Configuration& configuration);
  TaskGraph lowered(const Configuration& configuration, const Plan& plan);

 private:
  using Key = std::tuple<int, int, bool>;
  Variant& variant(const Configuration& configuration);
  Common& common_;
  const Experiment& base_;
  std::map<Key, std::unique_ptr<Variant>> variants_;
};

// The scenario's keys that a plan decides, for a user to write down.
std::vector<std::pair<std::string, std::string>> settings_of(const Exact& exact);

// Moves single blocks over the cuts of a plan while that makes it faster.
Exact improve_cuts(Evaluator& evaluator, const Exact& start, int most_evaluations);

}  // namespace panpipe::planner
