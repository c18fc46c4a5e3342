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
  Duration longest_step() const {  // of any rank
    Duration longest(0);
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Optimizer)
        longest = std::max(longest, to_duration(graph.programs[at_index(task.program)].duration));
    return longest;
  }
  const Breakdown& step_breakdown() const {
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Optimizer) return graph.programs[at_index(task.program)].breakdown;
    return graph.programs.front().breakdown;
  }
  Duration compute_of_step() const { return step_breakdown().compute; }
  Duration communication_of_step() const { return step_breakdown().communication; }
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

// Streamed states leave the device, which updates them: two moments and the master, 12 bytes, or the first moment, 4. The step
// waits for n / 8 parameters' bytes in each direction, beyond the update that it has without.
TEST(HeldState, StatesThatStreamThroughTheDevice) {
  const std::string parallel = "parallel: {data: 8, zero: 2}\n";
  const Lowered plain = lowered("", parallel);
  const auto n = static_cast<double>(plain.made->workload.parameters);
  for (const auto& [states, bytes] : {std::pair("", 12.0), std::pair(", streamed_states: [first_moment]", 4.0)}) {
    const Lowered made = lowered("", parallel + "offload: {optimizer: stream" + states + "}\n");
    EXPECT_NEAR(plain.part(MemoryUse::Optimizer) - made.part(MemoryUse::Optimizer), bytes * n / 8, 8);
    const Cluster& cluster = made.made->scenario.cluster;
    const double rate = shared_host_copy_bandwidth(cluster, made.plan.devices, 0, true).base();
    const double back = shared_host_copy_bandwidth(cluster, made.plan.devices, 0, false).base();
    EXPECT_NEAR(made.step().base() / std::max(bytes * n / 8 / std::min(rate, back), plain.step().base()), 1, 1e-6);
  }
}

// Sums in the host's memory: the device keeps none. The step reads them on top of the states, 4 + 12 bytes.
TEST(HeldState, GradientsInTheHostsMemory) {
  const std::string parallel = "parallel: {data: 8, zero: 2}\n";
  const Lowered plain = lowered("", parallel), made = lowered("", parallel + "offload: {optimizer: stream, gradients: cpu}\n");
  const auto n = static_cast<double>(plain.made->workload.parameters);
  EXPECT_EQ(made.part(MemoryUse::Gradients), 0);
  const double back = shared_host_copy_bandwidth(made.made->scenario.cluster, made.plan.devices, 0, false).base();
  EXPECT_NEAR(made.step().base() / (16 * n / 8 / back), 1, 1e-6);
}

// Two blocks under full recompute keep their inputs, 2048 x 4096 x 2 bytes each, which a forward leaves on the device; streamed,
// it leaves none, or that of the second block.
TEST(HeldState, BlocksThatStream) {
  const auto peak = [](const std::string& offload) {
    const Lowered made = lowered("", "parallel: {data: 8}\nrecompute: full\n" + offload);
    Bytes most(0);
    for (const Task& task : made.graph.tasks)
      if (task.kind == TaskKind::Pass) most = std::max(most, task.take);
    return static_cast<double>(most.base());
  };
  const double input = 2048.0 * 4096 * 2, plain = peak("");
  EXPECT_NEAR(plain - peak("offload: {blocks: all}\n"), 2 * input, 1);
  EXPECT_NEAR(plain - peak("offload: {block_inputs: cpu}\n"), 2 * input, 1);
  EXPECT_NEAR(plain - peak("offload: {blocks: 1}\n"), input, 1);
}

// A slow path to the host: what a block keeps takes longer to move than the block to compute, and the passes last as long as the
// copies; a fast one costs nothing.
TEST(HeldState, PassesWaitForWhatStreams) {
  const auto times = [](double bytes_per_second, const std::string& offload) {
    Lowered made = lowered("", "parallel: {data: 8}\nrecompute: full\n" + offload);
    Scenario scenario = made.made->scenario;
    for (DeviceType& type : scenario.cluster.types) type.copy_bandwidth = Bandwidth(bytes_per_second);
    const CostModel model(scenario, made.made->workload);
    const TaskGraph graph = lower(scenario, made.plan, ModelCosts(model, scenario.degrees));
    std::pair<double, double> found;
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Pass)
        (task.action.kind == ActionKind::F ? found.first : found.second) =
            to_duration(graph.programs[static_cast<std::size_t>(task.program)].duration).base();
    return found;
  };
  const auto [forward, backward] = times(55e9, "");
  const auto [fast_forward, fast_backward] = times(55e9, "offload: {blocks: all}\n");
  EXPECT_EQ(fast_forward, forward);
  EXPECT_EQ(fast_backward, backward);
  // Two blocks of 16.8 MB each over 10 MB/s: 3.36 s, and behind them embedding and head as before.
  const auto [slow_forward, slow_backward] = times(1e7, "offload: {blocks: all}\n");
  const double copies = 2 * 2048.0 * 4096 * 2 / 1e7;
  EXPECT_NEAR(slow_forward / copies, 1, 0.02);
  EXPECT_NEAR(slow_backward / copies, 1, 0.05);
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

// Llama 3 8B's layers have three matrices of 4096 x 14336, two of 4096 x 4096, two of 1024 x 4096. With Muon a matrix keeps a
// master and one moment, 8 bytes, where Adam keeps 12. Eight replicas under ZeRO 1 hold whole ones: each of the six large ones is
// alone on a replica, and the last two share the rest, 2 x 16.8 + 2 x 4.2 million elements each. The most is 58.7 million, an
// even share is 54.5 million.
constexpr double kLarge = 4096.0 * 14336, kSquare = 4096.0 * 4096, kNarrow = 1024.0 * 4096;
constexpr double kMatrices = 6 * kLarge + 4 * kSquare + 4 * kNarrow;

double share_of_compute(const Lowered& made) {
  double whole = 0;
  for (const UnitCost& unit : made.made->cost().units) whole += unit.optimizer.base();
  return made.compute_of_step().base() / whole;
}

TEST(HeldState, OfMatricesThatReplicasDivide) {
  const Lowered all = lowered("", "parallel: {data: 8}\noptimizer: muon\n"),
                layers = lowered("", "parallel: {data: 8, zero: 1}\noptimizer: muon\n");
  const auto n = static_cast<double>(all.made->workload.parameters);
  EXPECT_NEAR(all.part(MemoryUse::Optimizer), 12 * n - 4 * kMatrices, 8);
  EXPECT_NEAR(layers.part(MemoryUse::Optimizer), (12 * n - 4 * kMatrices) / 8 + 8 * (kLarge - kMatrices / 8), 64);
  // Of the time of all: one large matrix, 20 m m n + 10 m m m = 5.50e12 operations of 6 x 5.50 + 4 x 2.06 + 4 x 0.097 = 41.6e12,
  // 0.132; its share of the time is a little less, because the small ones' products are slower.
  EXPECT_DOUBLE_EQ(share_of_compute(all), 1);
  EXPECT_NEAR(share_of_compute(layers), 0.132, 0.006);
}

// Seven matrices a layer over eight tensor-parallel ranks: blockwise steps shards alone; duplicated does all on each, and
// gathers; distributed sums Gram matrices; in layers each rank does an eighth.
TEST(HeldState, OfMatricesThatTensorRanksDivide) {
  const auto step = [](const std::string& mode) {
    const Lowered made = lowered("", "parallel: {tensor: 8}\noptimizer: {name: muon, tensor_mode: " + mode + "}\n");
    return std::pair(made.compute_of_step(), made.communication_of_step());
  };
  const auto [whole, gathers] = step("duplicated");
  const auto [part, sums] = step("distributed");
  const auto [alone, none] = step("blockwise");
  const auto [turn, turned] = step("layers");
  EXPECT_EQ(none, Duration(0));
  EXPECT_NEAR(turn / whole, 0.125, 1e-9);
  EXPECT_LT(alone, part);
  EXPECT_LT(part, whole);
  EXPECT_LT(turned, gathers);
  EXPECT_LT(gathers, sums) << "five sums of a Gram matrix move more than the matrix";
}

// Where ZeRO 3 divides matrices, each replica gathers and steps all of them, or they trade shards for whole ones and back.
TEST(HeldState, OfMatricesThatZeroCuts) {
  const auto made = [](const std::string& sharding) {
    return lowered("", "parallel: {data: 8, zero: 3}\noptimizer: {name: muon, sharding: " + sharding + "}\n");
  };
  const Lowered gathered = made("gathered"), layers = made("layers");
  EXPECT_DOUBLE_EQ(share_of_compute(gathered), 1);
  EXPECT_NEAR(share_of_compute(layers), 0.132, 0.006);
  EXPECT_GT(gathered.communication_of_step(), layers.communication_of_step());
  EXPECT_GT(layers.communication_of_step(), Duration(0));
  EXPECT_THAT(test::fault_of([&] { made("replicated"); }), testing::HasSubstr("ZeRO 3 divides the optimizer's state"));
}

// NVIDIA's page on emerging optimizers (docs/models/optimizers.md): model TFLOP/s per GPU with AdamW and with Muon, on GB300 in
// MXFP8, at the batches of Megatron-Bridge 26.02. A step's seconds are tokens x operations a token / (GPUs x TFLOP/s): 4096 x
// 4096 x 2.0446e11 / 256 is 13.40e15, over 1051e12 and 1029e12: 0.27 s apart; 512 x 4096 x 2.301e10 / 8 is 6.03e15, over 713e12
// and 686e12: 0.33 s. Nothing here was fitted to them.
TEST(HeldState, MuonsStepIsThatOfPublishedRuns) {
  struct Run {
    const char *workload, *parallel, *cluster, *batch;
    double operations, adamw, muon;
  };
  for (const Run& run : {Run{"kimi-k2", "{pipeline: 4, data: 64, expert: 64, zero: 1}", "4", "{micro: 2, microbatches: 32}",
                             4096 * 4096 * 2.0446e11 / 256, 1051e12, 1029e12},
                         Run{"qwen3-30b-a3b", "{pipeline: 1, data: 8, expert: 8, zero: 1}", "1", "{micro: 8, microbatches: 8}",
                             512 * 4096 * 2.301e10 / 8, 713e12, 686e12}}) {
    const auto step = [&](const std::string& optimizer) {
      const auto made =
          make(fmt::format("panpipe: 1\ncluster: {{file: clusters/gb300-nvl72.yaml, nodes: {}}}\n"
                           "workload: {{config: workloads/{}.json, sequence: 4096}}\nbatch: {}\nprecision: mxfp8\n"
                           "parallel: {}\nframework: megatron-core\noptimizer: {}\n",
                           run.cluster, run.workload, run.batch, run.parallel, optimizer));
      const ModelCosts costs(*made->model, made->degrees());
      const Plan plan = make_plan(made->scenario, costs);
      Lowered result{nullptr, plan, lower(made->scenario, plan, costs)};
      return result.longest_step().base();
    };
    const double more = step("{name: muon, update_scale: match-rms}") - step("adamw");
    const double published = run.operations / run.muon - run.operations / run.adamw;
    EXPECT_NEAR(more / published, 1, 0.15) << run.workload << " " << more << " s for " << published << " s";
  }
}

}  // namespace
}  // namespace panpipe
