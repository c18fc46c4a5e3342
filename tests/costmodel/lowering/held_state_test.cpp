// Weights, gradients and optimizer state on devices, by formats, frozen parameters and offload to the host's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

struct Lowered {
  std::unique_ptr<Made> made;
  Plan plan;
  TaskGraph graph;

  double part(MemoryUse use) const {
    double sum = 0;
    for (const MemoryPart& part : graph.memory[0].parts) sum += part.use == use ? static_cast<double>(part.bytes.base()) : 0;
    return sum;
  }
  Duration step() const {
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Optimizer) return to_duration(graph.programs[at_index(task.program)].duration);
    return Duration(0);
  }
  Duration last_backward() const {
    Duration found(0);
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Pass && task.action.kind == ActionKind::B)
        found = to_duration(graph.programs[at_index(task.program)].duration);
    return found;
  }
  static std::size_t at_index(std::int32_t index) { return static_cast<std::size_t>(index); }
};

Lowered lowered(const std::string& workload, const std::string& more, const std::string& precision = "bf16") {
  Lowered result;
  result.made =
      make("panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/llama-3-8b.json, layers: 2, sequence: 2048" +
           workload + "}\nbatch: {micro: 1, microbatches: 2}\nprecision: " + precision +
           "\nframework: {name: megatron-core, attention: flash-3}\n" + more);
  const ModelCosts costs(*result.made->model, result.made->degrees());
  result.plan = make_plan(result.made->scenario, costs);
  result.graph = lower(result.made->scenario, result.plan, costs);
  return result;
}

// Of n parameters with LoRA's factors m: weights 2 (n + m), gradients 4 m, optimizer 12 m; ZeRO 3 over 8 devices divides all.
TEST(HeldState, OfFrozenParametersIsTheirWeightsAlone) {
  const std::string lora = ", lora: {rank: 16, targets: [q_proj, v_proj]}";
  const Lowered plain = lowered("", "parallel: {data: 8}\n");
  const auto n = static_cast<double>(plain.made->workload.parameters);
  for (const auto& [zero, shards] : {std::pair(0, 1.0), std::pair(3, 8.0)}) {
    const Lowered made = lowered(lora, fmt::format("parallel: {{data: 8, zero: {}}}\n", zero));
    const auto m = static_cast<double>(made.made->workload.trained_parameters);
    EXPECT_NEAR(made.part(MemoryUse::Parameters), 2 * (n + m) / shards, 8);
    EXPECT_NEAR(made.part(MemoryUse::Gradients), 4 * m / shards, 8);
    EXPECT_NEAR(made.part(MemoryUse::Optimizer), 12 * m / shards, 8);
  }
}

// FP8 keeps the blocks' weights in 8 bits besides, in both directions: 2 bytes; not under ZeRO 3, which gathers them for each
// pass.
TEST(HeldState, OfWeightsInEightBits) {
  const double products = 2.0 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3.0 * 4096 * 14336);
  const auto weights = [](const std::string& precision, const std::string& parallel) {
    return lowered("", "parallel: " + parallel + "\n", precision).part(MemoryUse::Parameters);
  };
  EXPECT_NEAR(weights("fp8", "{data: 8}") - weights("bf16", "{data: 8}"), 2 * products, 1);
  EXPECT_EQ(weights("fp8", "{data: 8, zero: 3}"), weights("bf16", "{data: 8, zero: 3}"));
}

// ZeRO 2 over 8 devices of one node. The host's Adam takes 0.55 ns a parameter for all 8 together; each device's gradients, 4 n
// / 8 bytes, go down during the last backward, and its weights, 2 n / 8, come back.
TEST(HeldState, OptimizerInTheHostsMemory) {
  const std::string parallel = "parallel: {data: 8, zero: 2}\n";
  const Lowered plain = lowered("", parallel), made = lowered("", parallel + "offload: {optimizer: cpu}\n");
  EXPECT_EQ(made.part(MemoryUse::Optimizer), 0);
  EXPECT_EQ(made.part(MemoryUse::Gradients), plain.part(MemoryUse::Gradients));
  const auto n = static_cast<double>(made.made->workload.parameters);
  const Cluster& cluster = made.made->scenario.cluster;
  const double down = shared_host_copy_bandwidth(cluster, made.plan.devices, 0, true).base(),
               up = shared_host_copy_bandwidth(cluster, made.plan.devices, 0, false).base();
  const double exposed = std::max(0.0, 4 * n / 8 / down - made.last_backward().base());
  const double device = made.made->model->calibration(0).step.base();
  EXPECT_NEAR(made.step().base() / (device + 0.55e-9 * n + exposed + 2 * n / 8 / up), 1, 1e-6);
  EXPECT_GT(made.step(), plain.step());
}

// ZeRO 3: no shard stays on the device; each gather waits for the copy of its own.
TEST(HeldState, ParametersInTheHostsMemory) {
  const std::string parallel = "parallel: {data: 8, zero: 3}\n";
  const Lowered plain = lowered("", parallel), made = lowered("", parallel + "offload: {parameters: cpu}\n");
  EXPECT_EQ(made.part(MemoryUse::Parameters), 0);
  const double up = shared_host_copy_bandwidth(made.made->scenario.cluster, made.plan.devices, 0, false).base();
  ASSERT_EQ(made.graph.flows.size(), plain.graph.flows.size());
  int gathers = 0;
  for (std::size_t f = 0; f < made.graph.flows.size(); ++f) {
    const CollectiveCost &now = made.graph.flows[f].cost, &before = plain.graph.flows[f].cost;
    const bool gather = now.kind == CollectiveKind::AllGather;
    const double copy = gather ? static_cast<double>(now.bytes.base()) / 8 / up : 0;
    EXPECT_NEAR((now.time - before.time).base(), copy, 1e-9 + copy * 1e-6);
    gathers += gather;
  }
  EXPECT_GT(gathers, 0);
}

TEST(HeldState, DevicesNeedAWayToTheirHost) {
  const Lowered made = lowered("", "parallel: {data: 8}\noffload: {optimizer: cpu}\n");
  Scenario scenario = made.made->scenario;
  for (DeviceType& type : scenario.cluster.types) type.copy_bandwidth = Bandwidth(0);
  const CostModel model(scenario, made.made->workload);
  const ModelCosts costs(model, scenario.degrees);
  const std::string fault = test::fault_of([&] { lower(scenario, made.plan, costs); });
  EXPECT_THAT(fault,
              testing::HasSubstr("device 'H100-SXM' has no copy_bandwidth, which an optimizer in the host's memory needs"));
}

}  // namespace
}  // namespace panpipe
