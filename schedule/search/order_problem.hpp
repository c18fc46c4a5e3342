// The input of an order search, and the compact order that it works on. Every rank runs F, I and W of its stages, with one cost
// each or one per stage.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::search {

inline std::size_t size(int n) { return static_cast<std::size_t>(n); }

enum class Kind : std::uint8_t { F, I, W };

// Chunk c of rank r is the stage on r in the c-th pass through the ranks. One chunk is the line, stage r on rank r. Two are the
// V, stages r and 2p-1-r. More are a wave, which turns at each end. With `loop`, two or more chunks are a loop, in which every
// pass through the ranks starts at rank 0. The block search handles only the line and the V; placed_search.hpp handles the
// others.
struct OrderProblem {
  int ranks = 1, microbatches = 1, chunks = 1;
  int memory = 1;                             // activations (of one stage, one microbatch) a rank may hold
  double F = 1, I = 1, W = 1, comm = 0;       // means over the stages
  std::vector<std::array<double, 3>> each{};  // F, I, W of every stage; empty = all alike
  double effort = 1;                          // factor on the usual work of a search
  bool loop = false;                          // stage s on rank s mod p

  int stages() const { return ranks * chunks; }
  bool forth(int chunk) const { return loop || chunk % 2 == 0; }
  int rank_of(int stage) const { return forth(stage / ranks) ? stage % ranks : ranks - 1 - stage % ranks; }
  int stage_on(int rank, int chunk) const { return chunk * ranks + (forth(chunk) ? rank : ranks - 1 - rank); }
  // Delay from `stage` to the next one and back; none within a rank, such as where the V turns.
  double hop(int stage) const { return rank_of(stage) == rank_of(stage + 1) ? 0 : comm; }
  // The stage whose pass of the same kind a pass waits for; -1 = none: W, and the first F and I of a microbatch.
  int input_stage(Kind kind, int stage) const {
    return kind == Kind::F ? stage - 1 : kind == Kind::I && stage + 1 < stages() ? stage + 1 : -1;
  }
  // How much later than that pass ends its result arrives.
  double delay(Kind kind, int stage) const { return hop(kind == Kind::F ? stage - 1 : stage); }
  double passes() const { return 3.0 * chunks * ranks * microbatches; }  // of all ranks
  double length(Kind kind, int stage) const {
    if (!each.empty()) return each[stage][at(kind)];
    return kind == Kind::F ? F : kind == Kind::I ? I : W;
  }
  double work(int rank) const {  // of one rank
    double one = 0;
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (const Kind kind : {Kind::F, Kind::I, Kind::W}) one += length(kind, stage_on(rank, chunk));
    return microbatches * one;
  }
  double mean_work() const { return microbatches * chunks * (F + I + W); }
};

OrderProblem problem_of(int ranks, int microbatches, int chunks, int memory, const PassCosts& costs);

struct Op {
  Kind kind{};
  std::uint8_t chunk = 0;
  std::int32_t microbatch = 0;
  bool operator==(const Op&) const = default;
};
using Rows = std::vector<std::vector<Op>>;

// The search minimises the step, and among equal steps the longest span of a rank.
struct Score {
  double makespan = 0, span = 0;
  // Sums of costs differ in their last digits with the order of addition. Closer values count as equal.
  static constexpr double kTolerance = 1e-9;
  bool better_than(const Score& other) const {
    const double slack = kTolerance * (makespan + other.makespan);
    if (makespan < other.makespan - slack) return true;
    return makespan <= other.makespan + slack && span < other.span - slack;
  }
};

}  // namespace panpipe::search
