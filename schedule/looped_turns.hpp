// Turns of the looped families: a rank runs one stage for a turn of several microbatches, then its next stage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/order_building.hpp"

namespace panpipe {

struct Turn {
  int chunk, microbatch;  // chunk: index among the rank's stages, in forward order
};

// The forwards of a rank: group by group of microbatches, within a group chunk by chunk, within a chunk microbatch by microbatch.
// The last group is short when `group` does not divide the microbatches.
std::vector<Turn> turns(int microbatches, int group, int chunks);

// PyTorch's rule for the length of a turn: max(1, microbatches / ranks) turns of equal length.
int default_turn(int ranks, int microbatches);
// The reason why the microbatches cannot be divided so; empty if they can. `option` names the family's option that sets the
// length, or is empty.
std::string no_default_turn(std::string_view family, int ranks, int microbatches, std::string_view option);

// Of the family pfeife: how many forwards each rank runs ahead of 1f1b. The option prefetch is one number for all ranks, or a
// list.
std::vector<int> forwards_ahead(int ranks, const ScheduleOptions& options);

// The k-th passes of one rank of a looped schedule. Forwards follow the turns; backwards follow them with the stages reversed.
struct TurnsOfRank {
  const std::vector<Turn>& forward;
  int ranks, chunks, rank;
  Action F(int k) const { return pass(ActionKind::F, forward[k].chunk * ranks + rank, forward[k].microbatch); }
  Action backward(ActionKind kind, int k) const {
    return pass(kind, (chunks - 1 - forward[k].chunk) * ranks + rank, forward[k].microbatch);
  }
};

}  // namespace panpipe
