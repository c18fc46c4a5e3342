// The purpose of braiding, as counts: transfers and all-reduces in the open, and bubbles, of 1F1B-I, ZB-V and STP (arXiv
// 2510.27257). All counts are slopes of the step time, so that they do not depend on what else a step holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;
using Semantics = TransferRules::Semantics;

struct Pipe {
  std::string schedule;
  int ranks = 4, microbatches = 16;
  int layers = 1;                          // of a stage; a layer is two units
  double f = 10e-3, i = 10e-3, w = 10e-3;  // of a unit, seconds
  double transfer = 0, collective = 0;
  TransferRules rules{Semantics::Asynchronous, {}, {}};
  bool run_on = false;
  bool hides = true;  // a full backward hides its all-reduces behind the weight gradients

  // Seconds.
  double step() const {
    test::TableCosts costs = test::chain_of(4 * ranks * layers, f, i, w);
    costs.latency = Duration(transfer);
    if (collective > 0) {
      CollectiveCost cost;
      cost.kind = CollectiveKind::AllReduce;
      cost.time = Duration(collective);
      costs.table.collectives = {cost};
      for (UnitCost& unit : costs.table.units) {
        test::add_collective(unit.forward, cost.time);
        test::add_collective(unit.input_gradient, cost.time, hides);
      }
    }
    Scenario scenario = scenario_of(ranks, microbatches, schedule);
    scenario.degrees.virtual_stages = 2;
    scenario.transfers = rules;
    scenario.collectives_run_on = run_on;
    Ticks last(0);
    for (const Ticks end : estimate_times(test::lowered(scenario, costs)).task_end) last = std::max(last, end);
    return last.base() * 1e-12;
  }
  // Of the step time over a small transfer time: transfers in the open.
  double transfers() const {
    Pipe with = *this;
    with.transfer = 1e-6;
    return (with.step() - step()) / 1e-6;
  }
  // Over a small all-reduce: all-reduces in the open.
  double collectives() const {
    Pipe none = *this, with = *this;
    none.collective = 1e-9;  // the same structure
    with.collective = 1e-6 + 1e-9;
    return (with.step() - none.step()) / 1e-6;
  }
};

double per_microbatch(Pipe pipe, double (Pipe::*count)() const) {
  Pipe more = pipe;
  more.microbatches = 2 * pipe.microbatches;
  return ((more.*count)() - (pipe.*count)()) / pipe.microbatches;
}

Pipe pipe_of(const std::string& schedule, int ranks, int microbatches) {
  Pipe pipe;
  pipe.schedule = schedule;
  pipe.ranks = ranks;
  pipe.microbatches = microbatches;
  return pipe;
}

// Asynchronous transfers are in the open while the pipeline fills and drains only: 2p - 1 hops each way through 2p stages, for
// the V without the turns, less what the order has in store.
TEST(Claims, AsynchronousTransfersCostOnceUnlessBraidsDeliverAtTheirEnd) {
  for (const int p : {2, 4, 8}) {
    Pipe interleaved = pipe_of("interleaved-1f1b", p, 4 * p);
    EXPECT_NEAR(interleaved.transfers(), 4 * p - 2, 1e-3) << p;
    Pipe zbv = pipe_of("zb-v", p, 4 * p);
    EXPECT_NEAR(zbv.transfers(), p == 2 ? 3 : p == 4 ? 13 : 33, 1e-3) << p;
    Pipe stp = pipe_of("stp", p, 4 * p);
    EXPECT_NEAR(per_microbatch(stp, &Pipe::transfers), 2, 1e-3) << p;
    // A member's first unit that waits for its own input only hides the other's: 2 (p - 1) hops in p microbatches.
    stp.rules.braid_inputs = TransferRules::BraidInputs::Unit;
    EXPECT_NEAR(per_microbatch(stp, &Pipe::transfers), 2 - 2.0 / p, 1e-3) << p;
    stp.rules.braid_outputs = TransferRules::BraidOutputs::Unit;
    EXPECT_NEAR(stp.transfers(), 4 * p - 4, 1e-3) << p;
  }
}

// Blocking: a rank waits for what it sends. 1F1B-I 3 a microbatch, ZB-V 2 or 4, STP 2, one batch of two tensors per braid.
TEST(Claims, BlockingTransfersCostEveryMicrobatch) {
  for (const int p : {2, 4, 8}) {
    const auto per = [&](const std::string& schedule) {
      Pipe pipe = pipe_of(schedule, p, 4 * p);
      pipe.rules.semantics = Semantics::Blocking;
      return per_microbatch(pipe, &Pipe::transfers);
    };
    EXPECT_NEAR(per("interleaved-1f1b"), 3, 1e-3) << p;
    EXPECT_NEAR(per("zb-v"), p == 2 ? 2 : 4, 1e-3) << p;
    EXPECT_NEAR(per("stp"), 2, 1e-3) << p;
  }
}

// All-reduces in the open per layer and microbatch: a lone forward shows 2 a layer, a lone input gradient 2 more, a full backward
// none. Where passes do not wait for the last one of the pass before, it runs under what comes next: with L layers a stage 1 of
// 2L less, for each kind of pass that shows any. STP shows only those of its warm-up and drain, about 2p + 1 chunks a step.
TEST(Claims, BraidsHideTheAllReduces) {
  constexpr double kLayers = 3;
  const auto pipe = [&](const std::string& schedule, int ranks, int microbatches, bool run_on) {
    Pipe made = pipe_of(schedule, ranks, microbatches);
    made.layers = static_cast<int>(kLayers);
    made.run_on = run_on;
    return made;
  };
  for (const int p : {2, 4}) {
    const auto slope = [&](const std::string& schedule, bool run_on) {
      return per_microbatch(pipe(schedule, p, 4 * p, run_on), &Pipe::collectives) / (2 * kLayers);
    };
    EXPECT_NEAR(slope("interleaved-1f1b", false), 2, 1e-3) << p;
    EXPECT_NEAR(slope("interleaved-1f1b", true), 2 - 1 / kLayers, 1e-3) << p;
    EXPECT_NEAR(slope("zb-v", false), 4, 1e-3) << p;
    EXPECT_NEAR(slope("zb-v", true), 4 - 2 / kLayers, 1e-3) << p;
    for (const bool run_on : {false, true}) EXPECT_NEAR(slope("stp", run_on), 0, 1e-3) << p;
  }
  // Over a whole step on four ranks, the pipeline's ends included.
  const auto whole = [&](const std::string& schedule, int microbatches) {
    return pipe(schedule, 4, microbatches, true).collectives() / microbatches / (2 * kLayers);
  };
  EXPECT_NEAR(whole("interleaved-1f1b", 16), 1.875, 0.025);
  EXPECT_NEAR(whole("zb-v", 32), 3.45, 0.05);
  EXPECT_NEAR(whole("stp", 64), 0.175, 0.075);
}

// F = I = W: idle chunks of a step, 3(p-1), p-1, p-1.
TEST(Claims, BubblesInChunks) {
  for (const int p : {2, 4, 8}) {
    const auto bubble = [&](const std::string& schedule) {
      const Pipe pipe = pipe_of(schedule, p, 4 * p);
      const double chunk = 2 * pipe.f;
      return pipe.step() / chunk - 6.0 * pipe.microbatches;
    };
    EXPECT_NEAR(bubble("interleaved-1f1b"), 3 * (p - 1), 1e-6) << p;
    EXPECT_NEAR(bubble("zb-v"), p - 1, 1e-6) << p;
    EXPECT_NEAR(bubble("stp"), p - 1, 1e-6) << p;
  }
}

}  // namespace
}  // namespace panpipe
