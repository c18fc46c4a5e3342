// The executor sends the tensors between stages that predictions price, for any cut of any built-in model.
#include "exec/engine/stage_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "costmodel/plan/stage_links.hpp"
#include "costmodel/workload/operands.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

const Scenario& scenario() {
  static const Scenario four_devices = parse_scenario(
      "panpipe: 1\ncluster: {devices: 4, memory: 1 GiB, link: {latency: 1 us, bandwidth: unlimited}}\n"
      "workload: {model: gpt2}\nbatch: {micro: 2, microbatches: 2}\n",
      "s.yaml", ".");
  return four_devices;
}

// The first unit of each stage, ascending from 0.
std::vector<int> random_starts(std::mt19937& random, int units) {
  std::set<int> starts = {0};
  const std::size_t stages = 2 + random() % 3;
  while (starts.size() < stages) starts.insert(static_cast<int>(random() % static_cast<unsigned>(units)));
  return {starts.begin(), starts.end()};
}

struct Cut {
  Plan plan;
  std::vector<int> stage_of_unit;
};

Cut cut_at(const OperatorGraph& graph, const std::vector<int>& starts) {
  Cut cut;
  cut.plan = plan_over(graph, make_schedule("gpipe", static_cast<int>(starts.size()), 2, {}));
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const int end = s + 1 < starts.size() ? starts[s + 1] : static_cast<int>(graph.units.size());
    cut.plan.stages[s] = {starts[s], end, Recompute::None};
    cut.stage_of_unit.insert(cut.stage_of_unit.end(), static_cast<std::size_t>(end - starts[s]), static_cast<int>(s));
  }
  return cut;
}

void expect_priced(const OperatorGraph& graph, const StageLayout& layout, const std::vector<StageLink>& links) {
  ASSERT_EQ(layout.messages.size(), links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    const Message& message = layout.messages[i];
    EXPECT_EQ(std::pair(message.from, message.to), std::pair(links[i].from, links[i].to));
    std::int64_t forward = 0, backward = 0;
    for (std::size_t t = 0; t < message.tensors.size(); ++t) {
      const std::int64_t bytes = graph.tensors[message.tensors[t]].bytes().base();
      forward += bytes;
      if (message.gradient[t]) backward += bytes;
    }
    EXPECT_EQ(forward, links[i].bytes);
    EXPECT_EQ(backward, links[i].gradient_bytes);
  }
}

// From the operators alone: what a stage reads and another makes arrives from there, once, and nothing else does.
void expect_read(const OperatorGraph& graph, const std::vector<int>& stage_of_unit, const StageLayout& layout) {
  using Arrival = std::tuple<int, int, int>;  // from, to, tensor
  const auto stage_of = [&](int op) { return stage_of_unit[graph.operators[op].unit]; };
  std::set<Arrival> read;
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    for_each_operand(graph.operators[op], [&](int t) {
      const Tensor& tensor = graph.tensors[t];
      const int here = stage_of(static_cast<int>(op));
      if (tensor.role == TensorRole::Activation && stage_of(tensor.producer) != here)
        read.insert({stage_of(tensor.producer), here, t});
    });
  std::multiset<Arrival> sent;
  for (const Message& message : layout.messages)
    for (const int tensor : message.tensors) sent.insert({message.from, message.to, tensor});
  EXPECT_TRUE(std::equal(read.begin(), read.end(), sent.begin(), sent.end()));
}

TEST(StageLayout, SendsWhatPredictionsPrice) {
  std::mt19937 random(1);
  for (const std::string model : {"gpt", "llama", "bert", "vit", "mllm", "unet"}) {
    const Workload workload = small_model(model);
    const CostModel costs(scenario(), workload);
    for (int trial = 0; trial < 25; ++trial) {
      const std::vector<int> starts = random_starts(random, static_cast<int>(workload.graph->units.size()));
      SCOPED_TRACE(model + ", stages from " + ::testing::PrintToString(starts));
      const Cut cut = cut_at(*workload.graph, starts);
      const StageLayout layout = make_stage_layout(*workload.graph, cut.plan);
      expect_priced(*workload.graph, layout, stage_links(costs.units(0).edges, cut.stage_of_unit));
      expect_read(*workload.graph, cut.stage_of_unit, layout);
    }
  }
}

// A skip edge of the U-Net goes straight to its reader; the tied embedding of GPT is a parameter of both ends, and no message.
TEST(StageLayout, SkipEdgesAndTiedParameters) {
  const Workload unet = small_model("unet");
  const int units = static_cast<int>(unet.graph->units.size());
  const StageLayout skips = make_stage_layout(*unet.graph, cut_at(*unet.graph, {0, units / 3, 2 * units / 3}).plan);
  EXPECT_TRUE(std::any_of(skips.messages.begin(), skips.messages.end(), [](const Message& m) { return m.to - m.from == 2; }));
  const Workload gpt = small_model("gpt");
  const StageLayout tied = make_stage_layout(*gpt.graph, cut_at(*gpt.graph, {0, 3, 6}).plan);
  ASSERT_EQ(tied.messages.size(), 2U);
  for (const Message& message : tied.messages) {
    EXPECT_EQ(message.to, message.from + 1);
    EXPECT_EQ(message.tensors.size(), 1U);  // the residual stream: 2 samples x 16 tokens x 32 numbers of 4 bytes
    EXPECT_EQ(gpt.graph->tensors[message.tensors.front()].bytes(), Bytes(2 * 16 * 32 * 4));
  }
  const auto holds = [&](const StageRange& stage, int root) {
    return std::any_of(stage.parameters.begin(), stage.parameters.end(), [&](int t) {
      const Tensor& tensor = gpt.graph->tensors[t];
      return t == root || tensor.tied_to == root;
    });
  };
  std::vector<int> shared;
  for (const int root : tied.stages.front().parameters)
    if (holds(tied.stages.back(), root)) shared.push_back(root);
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(gpt.graph->tensors[shared.front()].elements(), 96 * 32);
}

// The first stage recomputes one of its blocks, the second none.
TEST(StageLayout, EachStageRecomputesItsOwnNumberOfBlocks) {
  const Workload gpt = small_model("gpt");
  Plan plan = cut_at(*gpt.graph, {0, 5}).plan;
  plan.stages[0].recompute = Recompute::Full;
  plan.stages[0].recompute_first = 1;
  StageLayout layout = make_stage_layout(*gpt.graph, plan);
  choose_recomputed(*gpt.graph, plan, RecomputeScope(), layout);
  ASSERT_EQ(layout.stages[0].again.size(), 1U);
  const auto [first, end] = layout.stages[0].again.front();
  std::set<std::string> blocks;
  for (int op = first; op < end; ++op) blocks.insert(gpt.graph->units[gpt.graph->operators[op].unit].block);
  EXPECT_EQ(blocks, std::set<std::string>{gpt.graph->units[1].block});
  EXPECT_TRUE(layout.stages[1].again.empty());
}

}  // namespace
}  // namespace panpipe::exec
