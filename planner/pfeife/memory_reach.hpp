// Memory constraints on cuts, for a bound over all of them: the farthest end of a stage that fits on its device alone, and sums
// over the stages of a rank that must not exceed its limit.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "planner/pfeife/cut_evaluator.hpp"

namespace panpipe::planner {

// Counts only bytes that a stage certainly holds: its parameters with gradients and optimizer state (a tied one at its first
// use), and its activations of the microbatches that its rank has open at once, under the recompute mode that keeps least. Leaves
// out temporaries, hand-over buffers and the rank's other stages.
class MemoryReach {
 public:
  explicit MemoryReach(const CutEvaluator& evaluator);

  // Bytes before each unit: of parameters, of kept activations per microbatch, and of the part kept for weight gradients.
  using Parts = std::array<Sums, 3>;
  const Parts& parts(std::size_t position) const { return *parts_[position]; }
  // At some time the rank holds `held` times these parts of its stages; their sum must not exceed the limit.
  struct Row {
    std::vector<std::pair<std::size_t, std::array<double, 3>>> held;  // position, factors
    double limit = 0;
  };
  const std::vector<Row>& rows() const { return rows_; }
  // The row that these cuts exceed most, relative to its limit; nullptr if they exceed none.
  const Row* most_exceeded(const Cuts& cuts) const;
  bool counts() const { return binds_ || !rows_.empty(); }

  // True if memory keeps some stage from extending as far as the number of stages allows.
  bool binds() const { return binds_; }
  // The last end of stage `position` if it begins with unit `first`; returns `first` if not even that unit fits.
  int of(std::size_t position, int first) const { return reach_[position][first]; }

 private:
  struct Open {  // number of microbatches with whole activations, and with only the part for weight gradients
    int whole = 0, for_weight = 0;
  };
  struct OfType {
    Parts least;             // under the recompute mode that keeps least of each unit
    std::vector<Sums> kept;  // by recompute mode
  };
  static OfType sum_units(const SearchSpace& space, int type);
  void add_rows(const CutEvaluator& evaluator, int rank, double limit);
  static void count(Open& open, ActionKind kind, bool until_weight);
  static std::vector<std::vector<Open>> open_of(const Schedule& schedule, int rank, const std::vector<int>& stages,
                                                bool until_weight);
  void fill(const CutEvaluator& evaluator, std::size_t position, const OfType& of, double limit);

  int units_ = 0;
  bool binds_ = false;
  std::map<int, OfType> types_;
  std::vector<const Parts*> parts_;  // by position
  std::vector<Row> rows_;
  std::vector<std::vector<int>> reach_;
};

}  // namespace panpipe::planner
