// Attention that ranks share: what passes take, what travels, and who waits for whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "costmodel/lowering/peak_memory.hpp"
#include "costmodel/plan/transfer_semantics.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using test::attention_units;
using test::scenario_of;

constexpr double kMs = 1e9;  // picoseconds

Scenario slim(const std::string& exchange, int ranks = 4, int microbatches = 2, int splits = 8, int stages_per_rank = 1) {
  Scenario scenario = scenario_of(ranks, microbatches, "slimpipe", stages_per_rank);
  scenario.schedule.options = {
      {"sequence_splits", std::to_string(splits)}, {"stages_per_rank", std::to_string(stages_per_rank)}, {"exchange", exchange}};
  scenario.framework.attention = AttentionKernel::Flash;
  return scenario;
}

// While rank 0 runs slice 5, rank 3 runs slice 2 and takes one slice of its keys: of the 64 blocks of the square, of which a
// whole forward runs half, 2 (5 - 1) + 1 = 9 halves and 2 (2 + 1) + 1 = 7. The other 6 ms are divided evenly.
TEST(AttentionExchange, MovesKeysFromTheLongestToTheShortest) {
  const test::TableCosts costs = attention_units(4);
  const TaskGraph shared = test::lowered(slim("on"), costs), alone = test::lowered(slim("off"), costs);
  EXPECT_NEAR(test::milliseconds_of(alone, "0F0.5"), 0.75 + 4 * 11.0 / 64, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(alone, "3F0.2"), 0.75 + 4 * 5.0 / 64, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(shared, "0F0.5"), 0.75 + 4 * 9.0 / 64, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(shared, "3F0.2"), 0.75 + 4 * 7.0 / 64, 1e-9);
  // The backward: 8 ms of 20, and the weight gradient's 4.
  EXPECT_NEAR(test::milliseconds_of(shared, "0B0.5"), 1.5 + 8 * 9.0 / 64 + 0.5, 1e-9);
  // Rank 3 has not begun: nobody takes keys.
  EXPECT_NEAR(test::milliseconds_of(shared, "0F0.2"), test::milliseconds_of(alone, "0F0.2"), 1e-9);
}

double busy(const TaskGraph& graph) {
  double sum = 0;
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Pass) sum += graph.programs[task.program].duration.base() / kMs;
  return sum;
}

// Work moves and none is added. Nine tenths are attention: without an exchange ranks wait for the longest of the slices that run
// at a time, with it the step comes closer to that of equal slices, (M n + P-1) (F + B) / n.
TEST(AttentionExchange, MakesSlicesEqual) {
  test::TableCosts costs = attention_units(8);
  for (UnitCost& unit : costs.table.units) {
    unit.attention_forward = millis(9);
    unit.attention_backward = millis(18);
  }
  const TaskGraph shared = test::lowered(slim("on", 8, 4), costs), alone = test::lowered(slim("off", 8, 4), costs);
  EXPECT_NEAR(busy(shared), busy(alone), 1e-6);
  EXPECT_NEAR(busy(shared), 8 * 4 * 34.0, 1e-6);
  const double with = estimate(shared).step_time.base() * 1e3, without = estimate(alone).step_time.base() * 1e3;
  const double equal = (4 * 8 + 7) * 34.0 / 8;
  EXPECT_GT(with, equal);
  EXPECT_LT(with - equal, (without - equal) / 2);
}

// What a pass gives away is back before its rank goes on.
TEST(AttentionExchange, TheGiverWaitsForTheTaker) {
  const TaskGraph graph = test::lowered(slim("on"), attention_units(4));
  const std::int32_t taker = test::find_task(graph, "3F0.2"), next = test::find_task(graph, "0F0.6");
  const auto begin = graph.inputs.begin() + graph.tasks[next].first_input;
  EXPECT_TRUE(std::any_of(begin, begin + graph.tasks[next].inputs,
                          [&](const Input& input) { return input.task == taker && input.transfer < 0; }));
}

// The first of two attentions is shared where the other stage has one alone; the second is the stage's own.
TEST(AttentionExchange, StagesOfUnlikeNumbersShareTheFirstAttentions) {
  test::TableCosts costs = attention_units(5);
  Scenario scenario = slim("on");
  scenario.partition = {"2", "3", "4"};
  const TaskGraph graph = test::lowered(scenario, costs);
  EXPECT_NEAR(test::milliseconds_of(graph, "0F0.5"), 2 * 0.75 + 4 * 9.0 / 64 + 4 * 11.0 / 64, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(graph, "3F0.2"), 0.75 + 4 * 7.0 / 64, 1e-9);
}

TEST(AttentionExchange, IsRefusedWhereRanksWaitForTransfers) {
  Scenario scenario = slim("on");
  scenario.framework.blocking_transfers = true;
  EXPECT_EQ(transfer_semantics(scenario, false), TransferSemantics::Asynchronous) << "unless they are stated";
  scenario.transfers.semantics = TransferSemantics::Blocking;
  const Diagnostic found = test::diagnostic_of([&] { test::lowered(scenario, attention_units(4)); });
  EXPECT_EQ(found.message, "slimpipe exchanges attention while passes run, which transfers that ranks wait for do not");
  scenario.schedule.options["exchange"] = "off";
  EXPECT_NO_THROW(test::lowered(scenario, attention_units(4)));
}

// Two blocks on each of 4 ranks, 1024 tokens of 1024 features in 16 heads, bf16: queries of a slice are 128 x 1024 x 2 bytes, its
// keys with values twice that, its result as much as its queries and 4 bytes for each head and token.
constexpr std::int64_t kQuery = 128 * 1024 * 2, kOutput = kQuery + 128 * 16 * 4;

TaskGraph gpt(const std::string& schedule) {
  const Scenario scenario = parse_scenario(
      "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml}\nbatch: {micro: 1, microbatches: 2}\nprecision: bf16\n"
      "workload: {model: gpt, layers: 8, hidden: 1024, heads: 16, sequence: 1024, vocabulary: 32000}\n"
      "parallel: {pipeline: 4}\npartition: [h.2.attention, h.4.attention, h.6.attention]\nschedule: " +
          schedule + "\n",
      "s.yaml", data_directory());
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  return lower(scenario, make_plan(scenario, model), model);
}

TEST(AttentionExchange, SendsQueriesKeysAndResults) {
  const TaskGraph graph = gpt("{name: slimpipe, sequence_splits: 8, stages_per_rank: 1}");
  const auto bytes_to = [&](const std::string& pass, const std::string& next) {
    const Action of = graph.tasks[test::find_task(graph, pass)].action;
    const std::int32_t task = test::find_task(graph, next);
    const int from = of.stage == 0 ? 3 : 0;
    for (const Transfer& transfer : graph.transfers)
      if (transfer.consumer == task && graph.links[transfer.link].from_rank == from)
        return graph.links[transfer.link].cost.bytes.base();
    return std::int64_t{-1};
  };
  EXPECT_EQ(bytes_to("3F0.2", "3F0.3"), 2 * (kQuery + 2 * kQuery));  // queries, and one slice of keys and values
  EXPECT_EQ(bytes_to("0F0.5", "0F0.6"), 2 * kOutput);
  const auto after = [&](const std::string& pass) { return to_text(graph.tasks[test::find_task(graph, pass) + 1].action); };
  EXPECT_EQ(bytes_to("3B0.2", after("3B0.2")), 2 * (kQuery + 2 * kQuery + 2 * kOutput));  // the result and its gradient too
  EXPECT_EQ(bytes_to("0B0.5", after("0B0.5")), 2 * (kQuery + 2 * kQuery));                // gradients of what was sent
}

// Searches take the memory of ranks without their tasks.
TEST(AttentionExchange, MemoryWithoutTasksIsThatOfTheTasks) {
  const Scenario scenario = slim("on");
  const test::TableCosts costs = attention_units(4);
  const Plan plan = make_plan(scenario, costs);
  const TaskGraph graph = lower(scenario, plan, costs);
  const std::vector<PeakMemory> peaks = peak_memory(scenario, plan, costs);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(peaks[rank].peak.base(), test::peak_in_order(graph, rank)) << rank;
}

// Two blocks keep 2 x 2 x kQuery of gradients for each slice. Behind the last of 4 slices those of three wait, and each of the
// three gives its own back; a slice of 256 tokens is two of the above.
TEST(AttentionExchange, GradientsOfKeysWaitForTheirSlices) {
  const TaskGraph graph = gpt("{name: seq-1f1b, sequence_splits: 4}");
  const auto task = [&](const std::string& action) { return graph.tasks[test::find_task(graph, action)]; };
  const Bytes keys(2 * 2 * 2 * kQuery);
  EXPECT_EQ(task("1B0.3").give - task("1B0.3").take, task("1F0.3").take - keys * 3);
  for (const std::string slice : {"2", "1", "0"}) EXPECT_EQ(task("1B0." + slice).give, task("1F0." + slice).take + keys) << slice;
}

}  // namespace
}  // namespace panpipe
