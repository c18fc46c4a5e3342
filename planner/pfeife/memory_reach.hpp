// What memory says of cuts, for a bound over all of them: how far a stage can reach before it alone is too much for its device,
// and sums over the stages of a rank that must not exceed its limit.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "planner/pfeife/cut_evaluator.hpp"

namespace panpipe::planner {

// Counts no more than a stage surely holds: its parameters with their gradients and optimizer state (a tied one at its first
// use), and what it keeps of the microbatches that its rank has open at once, under the way to recompute that keeps least. Not
// temporaries, buffers of hand-overs, or the other stages of its rank.
class MemoryReach {
 public:
  explicit MemoryReach(const CutEvaluator& evaluator);

  // Bytes before each unit: of parameters, of what is kept of a microbatch, of what is kept for its weight gradients.
  using Parts = std::array<Sums, 3>;
  const Parts& parts(std::size_t position) const { return *parts_[position]; }
  // At some time the rank holds `held` times these parts of its stages: no more than the limit.
  struct Row {
    std::vector<std::pair<std::size_t, std::array<double, 3>>> held;  // position, factors
    double limit = 0;
  };
  const std::vector<Row>& rows() const { return rows_; }
  // The row that these cuts exceed most, by the share of its limit; null when none is exceeded.
  const Row* most_exceeded(const Cuts& cuts) const;
  bool counts() const { return binds_ || !rows_.empty(); }

  // Whether any stage is kept from reaching as far as the units for the others let it.
  bool binds() const { return binds_; }
  // The last end that stage `position` can have when it begins with unit `first`; `first` when not even that unit fits.
  int of(std::size_t position, int first) const { return reach_[position][static_cast<std::size_t>(first)]; }

 private:
  struct Open {  // microbatches whose activations, and of which only the part for the weight gradients, are held
    int whole = 0, for_weight = 0;
  };
  struct OfType {
    Parts least;             // under the way to recompute that keeps least of each unit
    std::vector<Sums> kept;  // by way to recompute
  };
  static OfType sum_units(const SearchSpace& space, int type);
  void add_rows(const CutEvaluator& evaluator, int rank, double limit);
  static void count(Open& open, ActionKind kind, bool until_weight);
  static std::vector<Open> open_of(const Schedule& schedule, int rank, int stage, bool until_weight);
  void fill(const CutEvaluator& evaluator, std::size_t position, const OfType& of, double limit);

  int units_ = 0;
  bool binds_ = false;
  std::map<int, OfType> types_;
  std::vector<const Parts*> parts_;  // by position
  std::vector<Row> rows_;
  std::vector<std::vector<int>> reach_;
};

}  // namespace panpipe::planner
