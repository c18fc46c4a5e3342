// Turns of the looped families: a rank takes its stages in turns of so many microbatches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe {

struct Turn {
  int chunk, microbatch;  // chunk: which of the rank's stages, in forward order
};

// The forwards of a rank: group after group of microbatches, chunk after chunk, microbatch after microbatch. The last group is
// short when `group` does not divide the microbatches.
std::vector<Turn> turns(int microbatches, int group, int chunks);

// PyTorch's rule for the length of a turn: as many turns as the ranks fit into the microbatches, all of one length.
int default_turn(int ranks, int microbatches);
// Why there are no such turns, empty where there are: the microbatches do not divide so. `option` is the family's option that
// states the length, or empty.
std::string no_default_turn(std::string_view family, int ranks, int microbatches, std::string_view option);

// The k-th passes of one rank of a looped schedule: forwards in the order of the turns, backwards with the stages reversed.
struct TurnsOfRank {
  const std::vector<Turn>& forward;
  int ranks, chunks, rank;
  Action F(int k) const;
  Action backward(ActionKind kind, int k) const;
};

}  // namespace panpipe
