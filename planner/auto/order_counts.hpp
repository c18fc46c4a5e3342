// What closed forms take from a family's order: counts, found by walking the order that the family makes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "planner/family_form.hpp"

namespace panpipe::planner {

// A moment of a rank's order in which much memory is taken: whole activations of each of its stages, weight gradients still
// to be made after their input gradient, and which stage then runs a forward and the backward after it (-1 = none).
struct Moment {
  std::vector<std::int32_t> held;  // by the rank's stages, in the order of forwards
  std::int32_t weights = 0;
  std::int32_t forward = -1, backward = -1;
  bool whole = false;  // the backward is a full one

  bool operator==(const Moment&) const = default;
};

struct RankCounts {
  std::vector<Moment> moments;     // few of the fullest; each really occurs
  std::int32_t in_flight = 0;      // activations between forward and backward, at most
  std::int32_t weights_after = 0;  // weight gradients behind the last input gradient

  bool operator==(const RankCounts&) const = default;
};

using OrderCounts = std::vector<RankCounts>;  // by rank

// The order has one chain of stages, and no passes but F, B, I and W.
OrderCounts counts_of(const Schedule& order);

// What holds for any order: before a rank runs the backward of its last stage for a microbatch, all forwards of that microbatch
// have run there, and none of its backwards. Nothing else is counted: no activations are in flight.
OrderCounts any_order(int ranks, int stages_per_rank);

// Counts of the families' orders, each order walked once. Of more than four microbatches a rank they are not walked but
// continued: what a rank runs repeats with the ranks' number of microbatches once it is under way, so every count grows evenly
// from one such number to the next, or not at all. Three sizes are walked; where they do not lie on a line, the whole order is.
// For several threads.
class OrderBook {
 public:
  // Empty where the order has too many actions to be made.
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
