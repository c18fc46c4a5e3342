// Counts that closed forms need from a family's order, found by walking the order.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "planner/family_form.hpp"

namespace panpipe::planner {

// A moment of a rank's order with high memory use: whole activations of each of its stages, weight gradients not yet made after
// their input gradient, and the stage that then runs a forward, followed by a backward (-1 = none).
struct Moment {
  std::vector<std::int32_t> held;  // per stage of the rank, in the order of forwards
  std::int32_t weights = 0;
  std::int32_t forward = -1, backward = -1;
  bool whole = false;  // it is a full backward

  bool operator==(const Moment&) const = default;
};

struct RankCounts {
  std::vector<Moment> moments;     // a few of the fullest; each occurs in the order
  std::int32_t in_flight = 0;      // most activations between forward and backward
  std::int32_t weights_after = 0;  // weight gradients after the last input gradient

  bool operator==(const RankCounts&) const = default;
};

using OrderCounts = std::vector<RankCounts>;  // by rank

// The order must have one chain of stages and only the passes F, B, I and W.
OrderCounts counts_of(const Schedule& order);

// Counts that hold for any order. Before a rank runs the backward of its last stage for a microbatch, it has run all forwards of
// that microbatch and none of its backwards. No activations count as in flight.
OrderCounts any_order(int ranks, int stages_per_rank);

// Counts of the families' orders, each order walked once. Beyond four microbatches per rank they are extrapolated: in the steady
// state a rank's row repeats every `ranks` microbatches, so each count grows linearly at such multiples, or not at all. Three
// sizes are walked; if they are not on a line, the whole order is walked. Thread-safe.
class OrderBook {
 public:
  // Empty if the order has too many actions to generate.
  const OrderCounts& find(const FamilyForm& form, int ranks, int stages_per_rank, int microbatches);

 private:
  struct Entry {
    std::once_flag made;
    OrderCounts counts;
  };
  std::mutex lock_;
  std::map<std::tuple<const FamilyForm*, int, int, int>, Entry> known_;
};

}  // namespace panpipe::planner
