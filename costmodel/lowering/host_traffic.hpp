// Tasks between a rank and its host's memory that no action of the schedule states: weights that come for the turn of a stage and
// gradients that go behind it, activations that one stage leaves for another. What comes is on the copy lane, what goes on the
// data lane, since a link carries both ways at once.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/lowering/lowering.hpp"
#include "costmodel/lowering/ring_traffic.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

class HostTraffic {
 public:
  HostTraffic(Lowering& lowering, int rank);
  bool any() const { return !turns_.empty() || !ways_.empty() || ring_.any(); }

  // Ahead of the pass at this position of the row: what it waits for, and behind that what a next one will wait for.
  // `pass_before`: the rank's last pass so far, -1 = none.
  void before(std::size_t position, std::int32_t pass_before);
  // `pass` is the task of the pass at this position.
  void after(std::size_t position, std::int32_t pass);
  // A copy, behind a task (-1: none), which `action` states or names.
  std::int32_t copy(const Action& action, bool away, Bytes bytes, std::int32_t after, Lane lane);

 private:
  struct Weights {
    Bytes weights{0}, gradients{0};
  };

  Bandwidth rate_of(const Action& action, bool away) const;
  const Weights& weights_of(int stage);
  Bytes parked(const Action& action) const;
  void bring_weights(std::size_t turn, std::size_t pieces);
  void bring_activation(std::size_t position, std::int32_t after);
  bool takes_parked(std::size_t position) const;
  std::size_t next_taking(std::size_t position) const;

  RingTraffic ring_;  // which no other traffic stands next to
  Lowering& lowering_;
  int rank_;
  const std::vector<Action>& row_;
  std::vector<Way> ways_;                                           // of stages; empty if each runs forwards and backwards
  std::vector<std::size_t> chain_of_;                               // of stages
  std::vector<WeightTurn> turns_;                                   // empty if weights stay on the device
  std::size_t turn_ = 0;                                            // the current one
  std::vector<std::size_t> pieces_;                                 // per turn: pieces of its weights that are tasks
  std::vector<std::int32_t> last_piece_;                            // per turn, -1 = none
  std::vector<std::int32_t> last_pass_;                             // per turn
  std::vector<std::int32_t> brought_;                               // per position: the copy of its activation
  std::vector<std::uint8_t> with_gradients_;                        // per stage: gradients are on the device
  std::map<int, Weights> weights_;                                  // of stages that were asked about
  std::map<std::pair<std::int64_t, bool>, std::int32_t> programs_;  // by bytes and direction: a rank's copies are alike
};

}  // namespace panpipe
