// The exchange of attention between ranks that run slices of a sequence at the same time (schedule/slice_exchange.hpp): which
// passes attend to more or fewer keys, and what travels. Private to this folder. docs/models/slimpipe.md has the equations.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "base/quantity.hpp"
#include "schedule/slice_exchange.hpp"

namespace panpipe {

struct Lowering;
struct PassMemory;

// Of the attention of a unit, for one slice of a microbatch on one device; 0 where there is none.
struct AttentionBytes {
  Bytes query{0}, keys{0}, output{0};  // keys: with values; output: with the logarithm of each row's sum
};

// Of the passes of a stage for one slice, where they share. The first attentions of both stages pair up; where one stage has more
// than the other, the rest is its own.
struct MovedKeys {
  int slices = 0;    // as SharedAttention::slices
  int end_unit = 0;  // units before this one share
};

struct AttentionExchange {
  SliceExchange shared{};
  std::vector<std::vector<MovedKeys>> moved{};  // per stage and slice
  std::vector<AttentionBytes> units{};          // per unit; empty without slices, and where layers are given
  std::vector<std::int32_t> before{};           // per task of a compute lane: the last of the lane before its pass; -1 = none
  std::map<std::tuple<int, int, std::int64_t>, std::int32_t> links{};  // by ranks and bytes

  bool any() const { return shared.any(); }
};

// Fills the rest of Lowering::attention once the stages are known, of which `shared` decides how many passes they have. Throws
// InputError where ranks wait for their transfers.
void make_attention_exchange(Lowering& lowering);
// What a pass that shares its attention needs in addition: what arrives for one unit's attention at a time.
Bytes exchange_memory(const Lowering& lowering, int stage, int slice, bool backward);
// Appends to TaskGraph::inputs what a task of a compute lane takes from the pass before it on its rank, if that shared its
// attention: what arrived during that pass, and the end of the pass that attended for it.
void connect_exchange(Lowering& lowering, std::int32_t task);

}  // namespace panpipe
