// Peaks of a step, from a plan to the curve of a device: recompute and ZeRO may only lessen what they are there to lessen.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/peak_memory.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;

std::vector<std::int64_t> peaks_of(const Scenario& scenario, const LoweringCosts& costs) {
  const Plan plan = make_plan(scenario, costs);
  const Timeline timeline = estimate(lower(scenario, plan, costs));
  std::vector<std::int64_t> peaks;
  for (const DeviceTimeline& device : timeline.devices) peaks.push_back(device.peak.base());
  return peaks;
}

int stages_per_rank(const std::string& family) { return family.find("interleaved") != std::string::npos ? 2 : 1; }

// Blocks of two units. Of what a unit saves, full recompute keeps its block's input, selective all but `core`; W reads `weight`.
test::TableCosts blocks_of(int count, std::int64_t saved, std::int64_t input, std::int64_t core, std::int64_t weight) {
  test::TableCosts costs = test::chain_of(2 * count, 1, 1, 1, saved, input);
  costs.is_measured = false;
  for (int u = 0; u < 2 * count; ++u) {
    UnitCost& unit = costs.table.units[u];
    unit.block = "h." + std::to_string(u / 2);
    unit.recompute_full = unit.forward;
    unit.saved_selective = unit.saved - Bytes(core);
    unit.saved_full = Bytes(u % 2 == 0 ? input : 0);
    unit.kept_for_weight = Bytes(weight);
    unit.temporary = Bytes(50);
  }
  return costs;
}

// One block of two units on one rank, one microbatch: each unit saves 1000, of which W reads 700; the block's input is 100.
// Without recompute: 2000 live, 50 temporary. I frees 600, W 1400. Full: F leaves 100; I makes the other 1900 again, 50
// temporary, and leaves 1400, 1300 more than there was; the peak is the same 2050.
TEST(MemoryPeaks, AnInputGradientApartTakesWhatWasMadeAgain) {
  const test::TableCosts costs = blocks_of(1, 1000, 100, 0, 700);
  Scenario scenario = scenario_of(1, 1, "zb-h1");
  const std::int64_t none = peaks_of(scenario, costs).front();
  scenario.recompute = Recompute::Full;
  const Plan plan = make_plan(scenario, costs);
  const TaskGraph graph = lower(scenario, plan, costs);
  const auto pass = [&](ActionKind kind) {
    for (const Task& task : graph.tasks)
      if (task.action.kind == kind) return task;
    return Task{};
  };
  EXPECT_EQ(pass(ActionKind::F).take, Bytes(100));
  EXPECT_EQ(pass(ActionKind::I).take, Bytes(1300));
  EXPECT_EQ(pass(ActionKind::I).give, Bytes(0));
  EXPECT_EQ(pass(ActionKind::I).temporary, Bytes(650));  // 100 + 1300 + 650 = 2050
  EXPECT_EQ(pass(ActionKind::W).give, Bytes(1400));
  EXPECT_EQ(peaks_of(scenario, costs).front(), none);
}

// none >= selective >= full on every rank, for any family, sizes and cut; and the sweep that the searches use holds what the
// curve holds.
TEST(MemoryPeaks, RecomputeNeverNeedsMore) {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  int compared = 0;
  for (const char* family :
       {"zb-h1", "zb-h2", "zb-v", "gis-h", "group-interleaved", "stp", "1f1b", "interleaved-1f1b", "gpipe"}) {
    for (int round = 0; round < 12; ++round) {
      const int input = pick(1, 100), saved = input + pick(0, 1000);
      test::TableCosts costs = blocks_of(8, saved, input, pick(0, saved - input), pick(0, saved));
      for (UnitCost& unit : costs.table.units) unit.temporary = Bytes(pick(0, 500));
      Scenario scenario = scenario_of(pick(1, 4), 12 * pick(1, 2), family, stages_per_rank(family));
      std::vector<std::int64_t> before;
      for (const Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        scenario.recompute = mode;
        const std::vector<std::int64_t> peaks = peaks_of(scenario, costs);
        for (std::size_t r = 0; r < before.size(); ++r) {
          EXPECT_LE(peaks[r], before[r]) << family << ", round " << round << ", rank " << r << ", " << name_of(mode);
          ++compared;
        }
        before = peaks;
        if (std::string(family) == "stp") continue;  // groups: the curve has the difference of their members
        const std::vector<PeakMemory> swept = peak_memory(scenario, make_plan(scenario, costs), costs);
        for (std::size_t r = 0; r < peaks.size(); ++r) EXPECT_EQ(swept[r].peak.base(), peaks[r]) << family << ", rank " << r;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

// Two blocks of two units, cut after the first unit and after the third: the two stages that begin inside a block keep what they
// receive, 100 bytes for each microbatch in flight (two on rank 1, one on rank 2), and make the rest of the 1000 again.
TEST(MemoryPeaks, AStageThatBeginsInsideABlockKeepsWhatItReceives) {
  const test::TableCosts costs = blocks_of(2, 1000, 100, 0, 0);
  Scenario scenario = scenario_of(3, 8, "1f1b");
  scenario.recompute = Recompute::Full;
  scenario.partition = {"1", "3"};
  const TaskGraph graph = test::lowered(scenario, costs);
  std::vector<std::int64_t> kept;
  for (const Task& task : graph.tasks)
    if (task.action.kind == ActionKind::F && task.action.microbatch == 0) kept.push_back(task.take.base());
  // The first stage its block's input; the second what it receives and the input of the block that begins in it; the last what it
  // receives.
  EXPECT_EQ(kept, (std::vector<std::int64_t>{100, 200, 100}));
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Pass && task.rank == 2 && task.action.kind == ActionKind::B) {
      EXPECT_EQ(task.give, Bytes(100));
      EXPECT_EQ(task.temporary, Bytes(900 + 50));
      break;
    }
}

// The same where selective recompute makes results again across the units of a block; and the last stage keeps its half of a
// block in which nothing is recomputed, 1000, with nothing besides.
TEST(MemoryPeaks, AStageThatBeginsInsideABlockKeepsWhatListedOperatorsReceive) {
  test::TableCosts costs = blocks_of(2, 1000, 100, 900, 0);
  Scenario scenario = scenario_of(3, 8, "1f1b");
  scenario.recompute = Recompute::Selective;
  scenario.partition = {"1", "3"};
  const auto kept = [&] {
    const TaskGraph graph = test::lowered(scenario, costs);
    std::vector<std::int64_t> result;
    for (const Task& task : graph.tasks)
      if (task.action.kind == ActionKind::F && task.action.microbatch == 0) result.push_back(task.take.base());
    return result;
  };
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{100, 200, 100}));
  costs.table.recompute_spans_block = true;
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{100, 300, 200}));
  for (const std::size_t u : {2U, 3U}) {
    costs.table.units[u].recomputes = false;
    costs.table.units[u].saved_selective = Bytes(1000);
  }
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{100, 100 + 100 + 1000, 1000}));
}

// A tensor that a half of a block keeps for the other counts where it is read. A layer of BLOOM cut between attention and MLP,
// 4096 tokens of 4096 in bf16: the attention half keeps as much as without recompute, and the MLP half the received input of its
// normalization, 32 MiB, that normalization's result, the module's input, 32 MiB, and two numbers of 4 bytes a token.
TEST(MemoryPeaks, AModuleThatRunsAgainLeavesTheOtherHalfAsItWas) {
  const auto kept = [](const std::string& recompute) {
    const Experiment experiment(
        parse_scenario("panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {config: {model_type: bloom, "
                       "hidden_size: 4096, n_layer: 1, n_head: 32, vocab_size: 64128}, sequence: 4096}\n"
                       "batch: {micro: 1, microbatches: 2}\nprecision: bf16\nparallel: {pipeline: 4}\n"
                       "schedule: 1f1b\npartition: [1, 2, 3]\nframework: megatron-core\nrecompute: " +
                           recompute + "\n",
                       "test", "."));
    const TaskGraph graph = lower(experiment.scenario, make_plan(experiment.scenario, experiment.model), experiment.model);
    std::vector<std::int64_t> result;
    for (const Task& task : graph.tasks)
      if (task.action.kind == ActionKind::F && task.action.microbatch == 0) result.push_back(task.take.base());
    return result;
  };
  const std::vector<std::int64_t> none = kept("none"), again = kept("{modules: [mlp]}");
  ASSERT_EQ(none.size(), 4U);
  EXPECT_EQ(again[1], none[1]);
  EXPECT_EQ(again[2], 2 * 4096 * 4096 * 2 + 2 * 4 * 4096);
  EXPECT_LT(again[2], none[2]);
}

// Blocks of 100 elements of 4 bytes. Under ZeRO 3 a device holds its share of all of them and two whole ones, however the passes
// of its stages follow one another: the one that runs and the one that is gathered meanwhile.
TEST(MemoryPeaks, Zero3HoldsTwoBlocks) {
  constexpr int kBlocks = 12, kData = 4, kBlock = 400;
  test::TableCosts costs = test::chain_of(kBlocks, 1, 1, 1);
  for (UnitCost& unit : costs.table.units) unit.parameters = {{-1, 0, Bytes(kBlock)}};
  costs.collective_time = Duration(0.1);
  for (const char* family : {"1f1b", "gpipe", "zb-h1", "interleaved-1f1b"}) {
    for (const int ranks : {1, 2}) {
      Scenario scenario = scenario_of(ranks, 4, family, stages_per_rank(family), kData);
      std::int64_t before = 1'000'000;
      for (const int zero : {0, 1, 2, 3}) {
        scenario.degrees.zero = zero;
        const std::int64_t peak = peaks_of(scenario, costs).front();
        EXPECT_LT(peak, before + (zero == 1 ? 1 : 0)) << family << ", zero " << zero;  // no optimizer state to share
        before = peak;
      }
      const TaskGraph graph = test::lowered(scenario, costs);
      std::int64_t fixed = 0;
      for (const MemoryPart& part : graph.memory.front().parts) fixed += part.bytes.base();
      EXPECT_EQ(before - fixed, 2 * kBlock) << family << " on " << ranks;
      for (const int most : {1, 3}) {
        scenario.framework.gathers_in_flight = most;
        const int held = std::min(most, kBlocks / (ranks * stages_per_rank(family)));
        const std::int64_t peak = peaks_of(scenario, costs).front() - fixed;
        EXPECT_GE(peak, held * kBlock) << family << " on " << ranks;
        EXPECT_LE(peak, std::max(most, 2) * kBlock) << family << " on " << ranks;
      }
      scenario.framework.gathers_in_flight = 2;
    }
  }
}

// Each of the two members of a group holds two blocks, and nothing is gathered for the lone passes behind the groups before these
// have ended.
TEST(MemoryPeaks, Zero3HoldsTwoBlocksForEachMemberOfAGroup) {
  constexpr int kBlock = 400;
  test::TableCosts costs = test::chain_of(12, 1, 1, 1);
  for (UnitCost& unit : costs.table.units) unit.parameters = {{-1, 0, Bytes(kBlock)}};
  costs.collective_time = Duration(0.1);
  for (const char* family : {"stp", "dualpipe-v"}) {
    Scenario scenario = scenario_of(2, 8, family, 2, 4);
    scenario.degrees.zero = 3;
    const TaskGraph graph = test::lowered(scenario, costs);
    std::int64_t fixed = 0;
    for (const MemoryPart& part : graph.memory.front().parts) fixed += part.bytes.base();
    EXPECT_EQ(peaks_of(scenario, costs).front() - fixed, 4 * kBlock) << family;
  }
}

}  // namespace
}  // namespace panpipe
