// Exchanges of an order whose weights go round the ranks (schedule/travelling_weights.hpp): in each turn every rank sends the
// weights of its forward to the next rank, those of its backward to the one before it, and the gradients that it added to. What a
// turn needs comes while the turn before it runs. They follow one another on the data lane, each with all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/lowering/lowering.hpp"
#include "schedule/travelling_weights.hpp"

namespace panpipe {

// The stage of which a rank has most state to hold, and what it holds of weights and gradients on their way: two buffers for each
// of the three (weipipe.py, Buffer).
HeldParameters home_stage(const Lowering& lowering);
Bytes travelling_buffers(const Lowering& lowering);

class RingTraffic {
 public:
  enum Hop { Forth, Back, Sum };  // in ring_flows
  RingTraffic(Lowering& lowering, int rank);
  bool any() const { return !turn_of_.empty(); }
  // As in HostTraffic.
  void before(std::size_t position, std::int32_t pass_before);
  void after(std::size_t position, std::int32_t pass);

 private:
  std::int32_t add(Hop hop, ActionKind kind, int stage, std::int32_t after);
  void advance(int turn, std::int32_t pass_before);
  int stage_of(bool forward, int nth) const;

  Lowering& lowering_;
  int rank_;
  RingTurns turns_;
  std::vector<int> turn_of_;                // by position of the row; empty if weights stay
  std::vector<std::int32_t> forth_, back_;  // by turn: what brings its weights, -1 = they are there
  std::size_t last_ = 0;                    // position of a pass
  int turn_ = -1;
  std::int32_t last_backward_ = -1;
};

// Once all ranks have their tasks: who takes part.
void share_ring_flows(Lowering& lowering);

}  // namespace panpipe
