// The exchange of attention of the family slimpipe (Li et al., SC 2025; the authors' AttnBalancer). Under a causal mask a late
// slice attends to more keys than an early one. Where all ranks run a forward at the same time, or a backward, the one with most
// earlier slices is paired with the one with fewest, and so on inwards; of each pair the first hands queries, with the keys and
// values of the sequence's first slices, to the second, so that both attend to equally many.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

// A pass's part in it.
struct SharedAttention {
  int rank = -1;   // the other one
  Action pass{};   // its pass of the same kind, which runs at the same time
  int slices = 0;  // of keys that this pass attends to for the other's queries; below 0: that the other attends to for this one's
};

class SliceExchange {
 public:
  SliceExchange() = default;  // nothing is exchanged
  // For an order of `slimpipe`, whose ranks run in step.
  explicit SliceExchange(const Schedule& schedule);

  bool any() const { return !passes_.empty(); }
  // Of an F, B or I: nullptr if it attends to all of its own keys and to no others. R repeats a forward without an exchange.
  const SharedAttention* of(const Action& pass) const;

 private:
  std::size_t place(const Action& pass) const;

  int stages_ = 0, microbatches_ = 0, splits_ = 1;
  std::vector<SharedAttention> passes_;  // forwards, then backwards
};

// True if the family's passes share their attention: slimpipe, but for exchange=off.
bool exchanges_attention(std::string_view family, const ScheduleOptions& options);
// Of the order that a family's options made; empty where nothing is shared.
SliceExchange exchange_of(const Schedule& schedule, const ScheduleOptions& options);

}  // namespace panpipe
