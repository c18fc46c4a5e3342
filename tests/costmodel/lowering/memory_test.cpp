#include <gtest/gtest.h>

#include <set>

#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

std::int64_t activation_peak(const TaskGraph& graph, int rank) {
  return test::peak_in_order(graph, rank) - test::static_bytes(graph, rank);
}

// 1F1B: rank r starts p - r forwards before its first backward, so it holds min(m, p - r) activations. GPipe holds all m.
TEST(Memory, ActivationsOf1F1BAndGPipe) {
  constexpr std::int64_t kSaved = 1000;
  const int p = 4;
  for (const int m : {1, 2, 3, 4, 8, 16}) {
    const test::TableCosts costs = chain_of(p, 1, 1, 1, kSaved);
    const Scenario one = scenario_of(p, m, "1f1b"), all = scenario_of(p, m, "gpipe");
    const TaskGraph pipelined = test::lowered(one, costs), whole = test::lowered(all, costs);
    for (int r = 0; r < p; ++r) {
      EXPECT_EQ(activation_peak(pipelined, r), std::min(m, p - r) * kSaved) << "rank " << r << ", " << m << " microbatches";
      EXPECT_EQ(activation_peak(whole, r), m * kSaved);
    }
  }
}

// A backward in two parts: I gives back what no weight gradient reads, W the rest.
TEST(Memory, InputGradientsFreeWhatWeightGradientsDoNotNeed) {
  test::TableCosts costs = chain_of(2, 1, 1, 1, 1000);
  for (auto& unit : costs.table.units) unit.kept_for_weight = Bytes(300);
  const Scenario scenario = scenario_of(2, 4, "zb-h1");
  const TaskGraph graph = test::lowered(scenario, costs);
  const Task& input = graph.tasks[test::find_task(graph, "0I0")];
  const Task& weight = graph.tasks[test::find_task(graph, "0W0")];
  EXPECT_EQ(input.give, Bytes(700));
  EXPECT_EQ(weight.give, Bytes(300));
}

// A measured layer's temporary counts from before it ran: 30 of the first, or 100 + 70 of the second, over 100 + 40 live at
// the end.
TEST(Memory, TemporariesOfMeasuredLayers) {
  test::TableCosts costs = chain_of(2, 1, 1, 1);
  costs.table.units[0].saved = costs.table.units[0].saved_selective = Bytes(100);
  costs.table.units[0].temporary = Bytes(130);
  costs.table.units[1].saved = costs.table.units[1].saved_selective = Bytes(40);
  costs.table.units[1].temporary = Bytes(70);
  const Scenario scenario = scenario_of(1, 1, "gpipe");
  const TaskGraph graph = test::lowered(scenario, costs);
  EXPECT_EQ(graph.tasks[test::find_task(graph, "0F0")].temporary, Bytes(30));
}

// 100 elements of 4 bytes per unit; ZeRO divides what is given in bytes, the cost model what it counts itself.
TEST(Memory, StaticPartsAndTheLimit) {
  test::TableCosts costs = chain_of(2, 1, 1, 1);
  for (auto& unit : costs.table.units) unit.parameters = {{-1, 0, Bytes(400)}};
  Scenario scenario = scenario_of(2, 1, "gpipe", 1, 2);
  scenario.optimizer.name = "adam";
  scenario.usable = 0.5;
  const auto parts = [&](int zero) {
    scenario.degrees.zero = zero;
    const TaskGraph graph = test::lowered(scenario, costs);
    EXPECT_EQ(graph.memory[0].limit, Bytes(500'000'000));
    std::vector<std::int64_t> bytes;
    for (int k = 0; k < 3; ++k) bytes.push_back(graph.memory[0].parts[k].bytes.base());
    return bytes;
  };
  EXPECT_EQ(parts(0), (std::vector<std::int64_t>{400, 400, 800}));
  EXPECT_EQ(parts(1), (std::vector<std::int64_t>{400, 400, 400}));
  EXPECT_EQ(parts(2), (std::vector<std::int64_t>{400, 200, 400}));
  EXPECT_EQ(parts(3), (std::vector<std::int64_t>{200, 200, 400}));
}

// Units of 100 elements of 4 bytes, one a stage. The executor sums gradients in buckets in addition to its own: of chimera's two
// chains both stages that a rank holds, with data parallelism all of a rank's, else none; in mixed precision it has no second
// copy.
TEST(Memory, TheExecutorsGradientBuckets) {
  const auto buckets = [](const std::string& schedule, int data, Precision precision, bool profile = true) {
    const test::TableCosts costs = chain_of(2, 1, 1, 1);
    Scenario scenario = scenario_of(2, 4, schedule, 1, data);
    scenario.precision = precision;
    if (profile) use_profile(scenario, std::make_shared<Profile>());
    std::vector<std::int64_t> found;
    for (const RankMemory& memory : test::lowered(scenario, costs).memory) {
      found.push_back(0);
      for (const MemoryPart& part : memory.parts)
        if (part.use == MemoryUse::GradientBuckets) found.back() += part.bytes.base();
    }
    return found;
  };
  EXPECT_EQ(buckets("chimera", 1, Precision::Fp32), (std::vector<std::int64_t>{800, 800}));
  EXPECT_EQ(buckets("chimera", 1, Precision::Bf16), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(buckets("chimera", 1, Precision::Fp32, false), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(buckets("1f1b", 1, Precision::Fp32), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(buckets("1f1b", 2, Precision::Fp32), (std::vector<std::int64_t>{400, 400}));
}

// 1000 B of parts and 600 B of tasks at a factor of 1.25, and the context as it is: 1.25 x 1600 + 300.
TEST(Memory, TheAllocatorsFactorIsOnEverythingButTheContext) {
  RankMemory memory;
  memory.parts = {{MemoryUse::Parameters, Bytes(1000)}, {MemoryUse::Context, Bytes(300)}};
  memory.allocator_factor = 1.25;
  EXPECT_EQ(memory.allocated(Bytes(600)), Bytes(2300));
  EXPECT_EQ(memory.allocated(Bytes(-200)), Bytes(1300));
}

TEST(Memory, EveryUseHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int use = 0; use <= static_cast<int>(MemoryUse::Fragmentation); ++use) {
    const std::string_view name = name_of(static_cast<MemoryUse>(use));
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(memory_use_named(name), static_cast<MemoryUse>(use));
  }
  EXPECT_EQ(memory_use_named("gradient bucket"), std::nullopt);
}

}  // namespace
}  // namespace panpipe
