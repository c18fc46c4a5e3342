// Batched transfers: what each batch holds, what a step then takes, and that every family finishes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/texts.hpp"

namespace panpipe {
namespace {

using test::scenario_of;
using Semantics = TransferRules::Semantics;
using BatchAfter = TransferRules::BatchAfter;
using BatchReceives = TransferRules::BatchReceives;

struct Pipe {
  std::string schedule;
  int ranks = 4, microbatches = 16, stages_per_rank = 1;
  TransferRules rules{Semantics::Batched, {}, {}};

  double step_ms(double transfer_ms) const {
    const int units = 2 * ranks * stages_per_rank;
    test::TableCosts costs = test::chain_of(units, 10e-3, 10e-3, 10e-3);
    costs.latency = Duration(transfer_ms * 1e-3);
    Scenario scenario = scenario_of(ranks, microbatches, schedule);
    scenario.degrees.virtual_stages = stages_per_rank;
    scenario.transfers = rules;
    Ticks last(0);
    for (const Ticks end : estimate_times(test::lowered(scenario, costs)).task_end) last = std::max(last, end);
    return last.base() / 1e9;
  }
  bool finishes() const {
    try {
      step_ms(1);
      return true;
    } catch (const NoAnswer&) {
      return false;
    }
  }
  // Transfers in the open per microbatch, as a slope.
  double exposed() const {
    Pipe more = *this;
    more.microbatches = 2 * microbatches;
    const auto open = [](const Pipe& pipe) { return (pipe.step_ms(1e-3) - pipe.step_ms(0)) / 1e-3; };
    return (open(more) - open(*this)) / microbatches;
  }
};

const std::vector<std::string> kFamilies = test::parts_of(
    "gpipe 1f1b kfkb interleaved-1f1b looped-bfs 1f1b-v hanayo zb-h1 zb-h2 interleaved-zero-bubble group-interleaved zb-v "
    "zb-auto stp v-half dualpipe-v");

int stages_per_rank(const std::string& family) {
  if (family == "hanayo") return 4;
  const bool one =
      family == "gpipe" || family == "1f1b" || family == "kfkb" || family == "zb-h1" || family == "zb-h2" || family == "zb-auto";
  return one ? 1 : 2;
}

TEST(Batches, EveryFamilyFinishes) {
  for (const std::string& family : kFamilies)
    for (const auto& [ranks, microbatches] : {std::pair{2, 8}, {3, 9}, {4, 12}}) {
      const Pipe pipe{family, ranks, microbatches, stages_per_rank(family)};
      Pipe free = pipe;
      free.rules.semantics = Semantics::Asynchronous;
      EXPECT_LE(free.step_ms(1), pipe.step_ms(1) + 1e-9) << family;
    }
}

// A pair needs the gradient before the forward runs: orders whose gradient depends on that forward stop with a report.
TEST(Batches, PairsSuitOrdersWhoseForwardsRunAhead) {
  for (const std::string family : {"1f1b", "interleaved-1f1b", "zb-v", "stp", "zb-h1", "looped-bfs", "1f1b-v"}) {
    Pipe pipe{family, 4, 16, stages_per_rank(family)};
    pipe.rules.batch_after = BatchAfter::Pair;
    EXPECT_EQ(pipe.finishes(), family != "looped-bfs" && family != "1f1b-v") << family;
  }
}

// A trainer that posts receives only for its next cell stops in orders that send far ahead of use.
TEST(Batches, LateReceivesDeadlockWhereTheOthersDoNot) {
  for (const std::string family : {"interleaved-1f1b", "zb-v", "kfkb"}) {
    Pipe pipe{family, 4, 16, stages_per_rank(family)};
    EXPECT_TRUE(pipe.finishes()) << family;
    pipe.rules.batch_receives = BatchReceives::Late;
    EXPECT_FALSE(pipe.finishes()) << family;
    pipe.rules.semantics = Semantics::Blocking;
    EXPECT_TRUE(pipe.finishes()) << family;
  }
}

// Where late receives finish nothing is posted earlier: F sends and takes a gradient, B sends and takes an activation.
TEST(Batches, ReceivesStayLateWhereThatFinishes) {
  for (const std::string family : {"gpipe", "1f1b"}) {
    Pipe pipe{family, 4, 8};
    const double as_needed = pipe.step_ms(3);
    pipe.rules.batch_receives = BatchReceives::Late;
    EXPECT_EQ(pipe.step_ms(3), as_needed) << family;
  }
}

// Small transfers, F = I = W. Every batch of a round trip between neighbours is waited for: 2 a microbatch where forwards and
// gradients are exchanged in one batch (STP's braids; pairs of F and B, the four tensors of Megatron-LM's interleaved exchange).
// Behind every cell: 1F1B as many from three ranks on, the others more, since each exchange couples neighbours twice.
TEST(Batches, TransfersInTheOpenPerMicrobatch) {
  for (const int p : {2, 4, 8}) {
    const auto exposed = [&](const std::string& family, BatchAfter after) {
      Pipe pipe{family, p, 4 * p, stages_per_rank(family)};
      pipe.rules.batch_after = after;
      return pipe.exposed();
    };
    EXPECT_NEAR(exposed("1f1b", BatchAfter::Cell), p == 2 ? 1 : 2, 1e-6) << p;
    EXPECT_NEAR(exposed("interleaved-1f1b", BatchAfter::Cell), 2 * p, 1e-6) << p;
    EXPECT_NEAR(exposed("zb-v", BatchAfter::Cell), p == 2 ? 2 : 4, 1e-6) << p;
    EXPECT_NEAR(exposed("stp", BatchAfter::Cell), 2, 1e-6) << p;
    for (const std::string family : {"1f1b", "interleaved-1f1b", "zb-v", "stp", "zb-h1"})
      EXPECT_NEAR(exposed(family, BatchAfter::Pair), 2, 1e-6) << family << ' ' << p;
  }
}

}  // namespace
}  // namespace panpipe
