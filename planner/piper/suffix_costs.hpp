// The cost of a stage for every pair of nested suffixes, in constant time except for its border, from sums per suffix and bounds
// on the choice of profiles under the memory limit. The exact choice is made only if the bounds leave it open.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "planner/piper/front_bounds.hpp"

namespace panpipe::planner::piper {

// Sums of the same times in another order differ by less than this share. Bounds are relaxed by it.
constexpr double kRounding = 1e-11;

// The layers of `outer` that are not in `inner`, run in way number `way`.
struct Cut {
  std::size_t outer = 0, inner = 0;
  std::size_t way = 0;
};

// The part of a cut's cost that does not depend on data degree and microbatches in flight. load >= (time + (data - 1) *
// reduction) / data.
struct StageBase {
  bool offered = false;  // every layer has this way
  double time = 0;       // fastest choices, plus the transfers over both borders
  double reduction = 0;  // gradients of one more replica, divided by the microbatches
};

class SuffixCosts {
 public:
  SuffixCosts(const PlanningProblem& problem, const Suffixes& suffixes);

  const PlanningProblem& problem() const { return *problem_; }
  const Suffixes& suffixes() const { return *suffixes_; }
  const std::vector<int>& data_degrees() const { return data_degrees_; }
  std::size_t ways() const { return ways_.size(); }
  int tensor(std::size_t way) const { return problem_->degrees[way]; }

  // Least values over the degrees for the layers of a suffix: device time (degree x time) and time of a replica.
  const std::vector<double>& device_time() const { return device_time_; }
  const std::vector<double>& replica_time() const { return replica_time_; }

  const FrontBounds& front() const { return front_; }

  // Not offered also where it takes longer than `enough`.
  StageBase base(const Cut& cut, double enough) const {
    StageBase base = bases_.empty() ? make_base(cut, enough) : bases_[place(cut)];
    base.offered = base.offered && base.time * (1 - kRounding) <= enough;
    return base;
  }

  // The exact load if it is at most `limit`; otherwise a lower bound of the load above `limit` (infinite if memory does not
  // suffice). Thread-safe.
  double load(const Cut& cut, const StageBase& base, int data, int in_flight, double limit) const;

  // The stage with its layers, choices, load and memory. It must fit.
  StageChoice stage(const Cut& cut, int data, int in_flight) const;

 private:
  // Sums over a suffix for one way, of the fastest choices.
  struct Row {
    double time = 0, in_flight = 0, fixed = 0;
    double parameters = 0;  // the least
    int recomputing = 0;    // layers
    int missing = 0;        // layers without this way
  };
  struct Way {
    std::vector<Row> rows;             // by suffix
    std::vector<double> enter, leave;  // per edge: seconds that it costs the stage at its head, at its tail
    bool alike = true;                 // a layer's choices differ only in time and memory
  };
  // For one way and one number in flight, made when first asked for: least memory and Lagrangian bounds per suffix.
  struct Tables {
    std::once_flag made;
    std::vector<Options> options;  // per layer
    std::vector<double> prices;
    PricedSums sums;
    std::mutex lock;
    std::unordered_map<std::uint64_t, double> chosen;  // least times of cuts, and of data degrees unless the way is alike
  };

  Tables& tables(std::size_t way, int in_flight) const;
  void make_tables(std::size_t way, int in_flight, Tables& made) const;
  double communication(const Cut& cut) const;
  std::size_t place(const Cut& cut) const { return (cut.outer * suffixes_->size() + cut.inner) * ways_.size() + cut.way; }
  double bound(const Cut& cut, const Tables& tables, double enough) const;
  double choice_time(const Cut& cut, int data, int in_flight) const;
  Picked choose(const Cut& cut, int data, int in_flight) const;
  Options options_at_border(const Cut& cut, int layer, int data, int in_flight) const;
  void prepare_rows(std::size_t way);
  void prepare_edges(std::size_t way);
  void prepare_cuts();
  void prepare_bases();
  // Without the transfers over its borders where the fastest choices alone take longer than `enough`: that is asked most often.
  StageBase make_base(const Cut& cut, double enough) const {
    const Row &outer = ways_[cut.way].rows[cut.outer], &inner = ways_[cut.way].rows[cut.inner];
    const double time = outer.time - inner.time;
    if (outer.missing != inner.missing) return {};
    if (time * (1 - kRounding) > enough) return {true, time, 0};
    const double parameters = outer.parameters - inner.parameters;
    return {true, time + communication(cut), 4 * parameters / (problem_->bandwidth * problem_->microbatches)};
  }

  const PlanningProblem* problem_;
  const Suffixes* suffixes_;
  Incidence incidence_;
  std::vector<int> data_degrees_;
  double memory_left_ = 0;  // on a device, for a stage that recomputes
  int most_in_flight_ = 1;
  std::vector<double> device_time_, replica_time_;
  std::vector<Way> ways_;
  std::vector<std::uint32_t> cut_begin_, cut_edges_;  // edges from outside, per suffix
  std::vector<StageBase> bases_;                      // of all cuts, where they are few enough
  FrontBounds front_;
  mutable std::vector<Tables> tables_;  // way x number in flight
};

}  // namespace panpipe::planner::piper
