// The cost of a stage for every pair of nested suffixes, in constant time except for its border, from sums per suffix and bounds
// on the choice of profiles under the memory limit. The exact choice is made only if the bounds leave it open.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/piper/knapsack.hpp"
#include "planner/piper/planning_problem.hpp"
#include "planner/piper/suffixes.hpp"

namespace panpipe::planner::piper {

// Sums of the same times in another order differ by less than this share. Bounds are relaxed by it.
constexpr double kRounding = 1e-11;

// The layers of `outer` that are not in `inner`, on tensor groups of degree number `degree`.
struct Cut {
  std::size_t outer = 0, inner = 0;
  std::size_t degree = 0;
};

// The part of a cut's cost that does not depend on data degree and microbatches in flight. load >= (time + (data - 1) *
// reduction) / data.
struct StageBase {
  bool offered = false;  // every layer has the degree
  double time = 0;       // fastest choices, plus the transfers over both borders
  double reduction = 0;  // gradients of one more replica, divided by the microbatches
};

class SuffixCosts {
 public:
  SuffixCosts(const PlanningProblem& problem, const Suffixes& suffixes);

  const PlanningProblem& problem() const { return *problem_; }
  const Suffixes& suffixes() const { return *suffixes_; }
  const std::vector<int>& data_degrees() const { return data_degrees_; }

  // Least values over the degrees for the layers of a suffix: device time (degree x time) and time of a replica.
  const std::vector<double>& device_time() const { return device_time_; }
  const std::vector<double>& replica_time() const { return replica_time_; }

  // The time of the fastest choices only; infinite if a layer lacks the degree, never NaN.
  double fastest(const Cut& cut) const;
  StageBase base(const Cut& cut) const;
  bool has_bases() const { return !bases_.empty(); }  // precomputed, so queries are fast

  // The exact load if it is at most `limit`; otherwise a lower bound of the load above `limit` (infinite if memory does not
  // suffice). Thread-safe.
  double load(const Cut& cut, const StageBase& base, int data, int in_flight, double limit) const;

  // The stage with its layers, choices, load and memory. It must fit.
  StageChoice stage(const Cut& cut, int data, int in_flight) const;

 private:
  // Sums over a suffix for one degree. Mode 0: the fastest choices, or those without recompute if a stage has one mode. Mode 1
  // exists only in that case: the choices with recompute.
  struct Row {
    double time[2] = {0, 0}, in_flight[2] = {0, 0}, fixed[2] = {0, 0};
    double parameters = 0;
    int missing = 0;  // layers without the degree
  };
  struct Degree {
    std::vector<Row> rows;
    std::vector<double> enter, leave;  // per edge: seconds that it costs the stage at its head, at its tail
    bool alike = true;                 // a layer's choices differ only in time and memory
  };
  // For one degree and one number in flight: least memory and Lagrangian bounds per suffix.
  struct Tables {
    std::vector<Options> options;  // per layer
    std::vector<double> prices;
    std::vector<double> rows;  // per suffix: least memory, then one bound per price
  };

  using ChoiceKey = std::pair<std::uint64_t, std::uint64_t>;  // (outer, inner), (degree, number in flight, data degree)
  struct ChoiceHash {
    std::size_t operator()(const ChoiceKey& key) const {
      return key.first * 0x9E3779B97F4A7C15u ^ (key.second * 0xC2B2AE3D27D4EB4Fu >> 7);
    }
  };

  const Row& row(std::size_t degree, std::size_t suffix) const { return degrees_[degree].rows[suffix]; }
  const Tables& tables(std::size_t degree, int in_flight) const;
  std::unique_ptr<Tables> make_tables(std::size_t degree, int in_flight) const;
  double communication(const Cut& cut) const;
  double bound(const Cut& cut, const Tables& tables, double enough) const;
  double choice_time(const Cut& cut, int data, int in_flight) const;
  Picked choose(const Cut& cut, int data, int in_flight) const;
  Picked choose_mode(const std::vector<int>& layers, std::size_t degree, const std::vector<Options>& options) const;
  Options options_at_border(const Cut& cut, int layer, int data, int in_flight) const;
  void prepare_degree(std::size_t degree);
  void prepare_edges(std::size_t degree);
  void prepare_cuts();
  void prepare_bases();
  StageBase make_base(const Cut& cut) const;

  const PlanningProblem* problem_;
  const Suffixes* suffixes_;
  Incidence incidence_;
  std::vector<int> data_degrees_;
  double memory_left_ = 0;  // on a device, for a stage that recomputes
  int most_in_flight_ = 1;
  std::vector<double> device_time_, replica_time_;
  std::vector<Degree> degrees_;
  std::vector<std::uint32_t> cut_begin_, cut_edges_;  // edges from outside, per suffix
  std::vector<StageBase> bases_;                      // by outer, inner, degree; empty: computed on request
  mutable std::mutex lock_;
  mutable std::vector<std::unique_ptr<Tables>> owned_;
  mutable std::vector<std::atomic<const Tables*>> tables_;  // degree x number in flight
  mutable std::unordered_map<ChoiceKey, double, ChoiceHash> chosen_;
};

}  // namespace panpipe::planner::piper
