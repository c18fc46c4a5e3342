// Full recompute of a stage's first blocks only, and of blocks in chunks: memory and time by hand, in the lowering and in the
// table of stages.
#include <gtest/gtest.h>

#include "costmodel/lowering/stage_table.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

constexpr double kTick = 1e12;  // of a second

// Four blocks of two units: each unit saves 1000 bytes, of which 100 of a block's first are its input, and needs 50 more.
// F, I and W take a second a unit, and a block's forward is what recompute adds.
test::TableCosts four_blocks() {
  test::TableCosts costs;
  costs.is_measured = false;
  for (int u = 0; u < 8; ++u) {
    UnitCost unit = test::unit_of(u, 1, 1, 1, 1000);
    unit.block = "h." + std::to_string(u / 2);
    unit.saved_full = Bytes(u % 2 == 0 ? 100 : 0);
    unit.recompute_full = unit.forward;
    unit.temporary = Bytes(50);
    costs.table.units.push_back(unit);
    if (u > 0) costs.table.edges.push_back({u - 1, u, u - 1, Bytes(100), true});
  }
  return costs;
}

struct StepOfOne {
  std::int64_t kept = 0, temporary = 0;  // of F, and of B
  double backward = 0;                   // seconds
};

StepOfOne step_of(const test::TableCosts& costs) {
  Scenario scenario = test::scenario_of(1, 1, "gpipe");
  scenario.recompute = Recompute::Full;
  const TaskGraph graph = test::lowered(scenario, costs);
  const Task& forward = graph.tasks[test::find_task(graph, "0F0")];
  const Task& backward = graph.tasks[test::find_task(graph, "0B0")];
  EXPECT_EQ(forward.take, backward.give);
  return {forward.take.base(), backward.temporary.base(), graph.programs[backward.program].duration.base() / kTick};
}

// Two blocks keep their inputs, 2 x 100, the others all, 4 x 1000. Behind the last block's backward, which makes nothing again,
// nothing rises so high: block 1 again is 1900, when blocks 2 and 3 have given 4000 back. 16 s of gradients and 4 of forwards.
TEST(Recompute, OfTheFirstBlocksOfAStage) {
  test::TableCosts costs = four_blocks();
  costs.table.recompute_first = 2;
  const StepOfOne step = step_of(costs);
  EXPECT_EQ(step.kept, 4200);
  EXPECT_EQ(step.temporary, 50);
  EXPECT_NEAR(step.backward, 20, 1e-9);
  costs.table.recompute_first = 7;  // more than there are: all, of which the last is made again, 2000 - 100 + 50
  EXPECT_EQ(step_of(costs).kept, 400);
  EXPECT_EQ(step_of(costs).temporary, 1950);
  EXPECT_NEAR(step_of(costs).backward, 24, 1e-9);
}

// Of two blocks together the first keeps its input: 2 x 100. The last chunk again is 4000, of which 100 are there, and 50 more.
// In chunks of three the second chunk is one block, 2000 - 100 + 50; then the first, 6000 - 100 + 50 when 100 have gone.
TEST(Recompute, OfBlocksInChunks) {
  test::TableCosts costs = four_blocks();
  costs.table.recompute_chunk = 2;
  const StepOfOne two = step_of(costs);
  EXPECT_EQ(two.kept, 200);
  EXPECT_EQ(two.temporary, 3950);
  EXPECT_NEAR(two.backward, 24, 1e-9);
  costs.table.recompute_chunk = 3;
  const StepOfOne three = step_of(costs);
  EXPECT_EQ(three.kept, 200);
  EXPECT_EQ(three.temporary, 5850);
}

// A chunk ends where its stage ends: two stages of two blocks in chunks of three keep an input each.
TEST(Recompute, ChunksDoNotCrossStages) {
  test::TableCosts costs = four_blocks();
  costs.table.recompute_chunk = 3;
  Scenario scenario = test::scenario_of(2, 1, "gpipe");
  scenario.partition = {"4"};
  scenario.recompute = Recompute::Full;
  const TaskGraph graph = test::lowered(scenario, costs);
  for (const char* name : {"0F0", "1F0"}) EXPECT_EQ(graph.tasks[test::find_task(graph, name)].take, Bytes(100)) << name;
}

// For every cut, also inside a block: what planners take for a stage is what the lowering makes of it.
TEST(Recompute, TheTableOfStagesKnowsTheFirstBlocks) {
  test::TableCosts costs = four_blocks();
  for (std::size_t u = 0; u < costs.table.units.size(); ++u)
    costs.table.units[u].recompute_full = test::pass_of(0.1 * static_cast<double>(u + 1));
  for (const int first : {1, 2, 3}) {
    costs.table.recompute_first = first;
    for (int cut = 1; cut < 8; ++cut) {
      Scenario scenario = test::scenario_of(2, 2, "1f1b");
      scenario.partition = {std::to_string(cut)};
      scenario.recompute = Recompute::Full;
      const StageTable table(scenario, costs, 0, {Recompute::Full});
      const TaskGraph graph = test::lowered(scenario, costs);
      for (const Task& task : graph.tasks) {
        if (task.kind != TaskKind::Pass) continue;
        const int begin = task.action.stage == 0 ? 0 : cut, end = task.action.stage == 0 ? cut : 8;
        EXPECT_NEAR(table.time(task.action.kind, Recompute::Full, begin, end) * kTick,
                    graph.programs[task.program].duration.base(), 1.5)
            << first << " blocks, cut " << cut << ", stage " << task.action.stage;
      }
    }
  }
}

// A loss with 100 bytes of logits, in 2 bytes each, needs 400 more in its backward: the log-softmax's gradient and the logits' in
// fp32. Its forward does without the second one; one of 600 (DTensor's) needs 400. Of 150, in 2 bytes, half are gradients. Other
// units need the same both ways.
TEST(Recompute, TheForwardOfALossHasNoGradients) {
  UnitCost unit;
  unit.temporary = Bytes(400);
  EXPECT_EQ(temporary_of_forward(unit), Bytes(400));
  unit.logits = Bytes(100);
  EXPECT_EQ(temporary_of_forward(unit), Bytes(200));
  unit.temporary = Bytes(600);
  EXPECT_EQ(temporary_of_forward(unit), Bytes(400));
  unit.temporary = Bytes(150);
  EXPECT_EQ(temporary_of_forward(unit), Bytes(75));
}

// The same from a scenario: six layers on two stages, of which each recomputes two: 1 + 1 of the three inputs stay, 2 s b h each,
// and of the third layer all. `chunk: 3` keeps one input a stage.
TEST(Recompute, KeysOfAScenario) {
  const auto kept = [](const std::string& recompute) {
    GptCase c;
    c.layers = 6;
    c.pipeline = 2;
    c.tensor = 4;
    c.extra = "recompute: " + recompute + "\nschedule: gpipe\npartition: [h.3]\n";
    const auto made = make_gpt(c);
    const WorkloadCost& cost = made->cost();
    std::vector<double> sums;
    const int cut = static_cast<int>(
        std::find_if(cost.units.begin(), cost.units.end(), [](const UnitCost& u) { return u.layer == 3; }) - cost.units.begin());
    for (const auto& [first, end] : {std::pair(0, cut), std::pair(cut, static_cast<int>(cost.units.size()))}) {
      double outside = 0;  // embedding, head
      for (int u = first; u < end; ++u)
        if (cost.units[u].block.empty()) outside += static_cast<double>(cost.units[u].saved.base());
      sums.push_back(
          static_cast<double>(
              sum_activations(cost, first, end, made->scenario.recompute, cost.recompute_first, false, WholeBytes{}).kept) -
          outside);
    }
    return std::pair(sums, layer_of(cost, 2).saved);
  };
  const double input = 2.0 * 2048 * 4 * 6144;  // 2 s b h
  const auto [first, layer] = kept("{first: 2}");
  const auto chunks = kept("{chunk: 3}").first, full = kept("full").first;
  for (const std::size_t stage : {0U, 1U}) {
    EXPECT_NEAR(first[stage], 2 * input + layer, 1e-6 * layer) << stage;
    EXPECT_NEAR(chunks[stage], input, 1) << stage;
    EXPECT_NEAR(full[stage], 3 * input, 1) << stage;
  }
}

// Two column-parallel products a layer keep s b h elements of 2 bytes in the place of their eighth.
TEST(Activations, GatheredInputsWhereTheFrameworkKeepsThem) {
  GptCase c;
  c.sequence_parallel = true;
  const double shards = layer_of(make_gpt(c)->cost()).saved;
  c.framework = "{name: megatron, keep_gathered_inputs: true}";
  const double hidden = 2.0 * c.sequence * c.micro * c.hidden;
  EXPECT_NEAR(layer_of(make_gpt(c)->cost()).saved - shards, 2 * hidden * (1 - 1.0 / 8), 1);
  c.sequence_parallel = false;  // nothing is gathered
  const double whole = layer_of(make_gpt(c)->cost()).saved;
  c.framework = "megatron";
  EXPECT_EQ(layer_of(make_gpt(c)->cost()).saved, whole);
}

}  // namespace
}  // namespace panpipe
