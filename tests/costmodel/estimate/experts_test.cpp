// Experts over ranks: gradients among those that hold the same experts, memory by hand, all-to-alls woven in groups of passes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using test::lowered;

// Seconds a byte of any collective; each of `count` blocks has F = I = W = 1 s, 100 parameters of 4 bytes that all replicas hold,
// and 60 of experts.
test::TableCosts blocks_of(int count, double second_per_byte) {
  test::TableCosts costs = test::chain_of(count, 1, 1, 1);
  costs.gather_per_byte = costs.scatter_per_byte = costs.sum_per_byte = second_per_byte;
  for (int u = 0; u < count; ++u) costs.table.units[u].parameters.push_back({1000 + u, 60, Bytes(0), true});
  return costs;
}

Scenario one_rank(int zero, int expert, int data = 4) {
  Scenario scenario = test::scenario_of(1, 1, "1f1b", 1, data);
  scenario.degrees.zero = zero;
  scenario.degrees.expert = expert;
  return scenario;
}

struct Exchanged {
  std::int64_t bytes = 0;
  int members = 0;
};
Exchanged exchanged(const TaskGraph& graph, CollectiveKind kind, Among among) {
  Exchanged sum;
  for (const Task& task : graph.tasks) {
    if (task.flow < 0) continue;
    const CollectiveFlow& flow = graph.flows[task.flow];
    if (flow.cost.kind != kind || flow.among != among) continue;
    sum.bytes += flow.cost.bytes.base();
    sum.members = flow.cost.members;
  }
  return sum;
}

// Five blocks: 2000 bytes of gradients over 4 replicas, 1200 of experts over the 4 / E that hold the same.
TEST(Experts, GradientsAreSummedAmongTheirHolders) {
  for (const int expert : {2, 4}) {
    const TaskGraph plain = lowered(one_rank(0, expert), blocks_of(5, 1e-3));
    EXPECT_EQ(exchanged(plain, CollectiveKind::AllReduce, Among::Data).bytes, 2000);
    EXPECT_EQ(exchanged(plain, CollectiveKind::AllReduce, Among::Data).members, 4);
    EXPECT_EQ(exchanged(plain, CollectiveKind::AllReduce, Among::ExpertData).bytes, expert == 4 ? 0 : 1200);
    EXPECT_NEAR(estimate(plain).step_time.base(), 15 + 2 + (expert == 4 ? 0 : 1.2), 1e-9);
  }
  EXPECT_EQ(exchanged(lowered(one_rank(0, 2), blocks_of(5, 1e-3)), CollectiveKind::AllReduce, Among::ExpertData).members, 2);
}

// ZeRO 1 scatters both kinds of gradients and gathers both kinds of weights: 2 x (2 + 1.2) s.
TEST(Experts, ZeroDividesThemOverTheirHolders) {
  const TaskGraph graph = lowered(one_rank(1, 2), blocks_of(5, 1e-3));
  for (const CollectiveKind kind : {CollectiveKind::ReduceScatter, CollectiveKind::AllGather}) {
    EXPECT_EQ(exchanged(graph, kind, Among::Data).bytes, 2000);
    EXPECT_EQ(exchanged(graph, kind, Among::ExpertData).bytes, 1200);
    EXPECT_EQ(exchanged(graph, kind, Among::ExpertData).members, 2);
  }
  EXPECT_NEAR(estimate(graph).step_time.base(), 15 + 2 * 3.2, 1e-9);
}

// Buckets of 800 bytes during the backward: of the others full after two, four blocks, of experts after four; all bytes are sent
// once.
TEST(Experts, HaveBucketsOfTheirOwn) {
  Scenario scenario = one_rank(1, 2);
  scenario.overlap_gradients = true;
  scenario.gradient_bucket = Bytes(800);
  const TaskGraph graph = lowered(scenario, blocks_of(5, 1e-3));
  EXPECT_EQ(exchanged(graph, CollectiveKind::ReduceScatter, Among::Data).bytes, 2000);
  EXPECT_EQ(exchanged(graph, CollectiveKind::ReduceScatter, Among::ExpertData).bytes, 1200);
  int trains = 0;
  for (const Task& task : graph.tasks)
    trains += task.flow >= 0 && graph.flows[task.flow].cost.kind == CollectiveKind::ReduceScatter;
  EXPECT_EQ(trains, 5);  // 800, 800 + 800 of experts, 400 + 400 of experts
}

// ZeRO 3 gathers a block's weights of both kinds before it runs, and reduces both behind it.
TEST(Experts, Zero3GathersThemBlockByBlock) {
  const TaskGraph graph = lowered(one_rank(3, 2), blocks_of(5, 1e-6));
  EXPECT_EQ(exchanged(graph, CollectiveKind::AllGather, Among::ExpertData).bytes, 2 * 1200);
  EXPECT_EQ(exchanged(graph, CollectiveKind::ReduceScatter, Among::ExpertData).bytes, 1200);
  EXPECT_EQ(exchanged(graph, CollectiveKind::AllGather, Among::Data).bytes, 2 * 2000);
}

std::string mixtral(const std::string& parallel, const std::string& more = "") {
  return fmt::format(
      "panpipe: 1\ncluster: {{file: clusters/h100x8.yaml, nodes: 2}}\nworkload: {{config: workloads/mixtral-8x7b.json, sequence: "
      "4096}}\nbatch: {{micro: 1, microbatches: 8}}\nprecision: bf16\nparallel: {{pipeline: 1, {}}}\nframework: "
      "megatron-core\n{}",
      parallel, more);
}

std::int64_t part(const TaskGraph& graph, MemoryUse use) {
  for (const auto& entry : graph.memory.front().parts)
    if (entry.use == use) return entry.bytes.base();
  return -1;
}

struct Predicted {
  Experiment experiment;
  TaskGraph graph;
  explicit Predicted(const std::string& text)
      : experiment(parse_scenario(text, "test", ".")),
        graph(lower(experiment.scenario, make_plan(experiment.scenario, experiment.model), experiment.model)) {}
};

// Mixtral 8x7B: 1,605,636,096 parameters that every rank holds and 45,097,156,608 of experts. BF16 weights 2 B, gradients 4 B
// whole; master and moments 12 B, over 16 ranks, those of experts over the 16 / 8 that hold the same.
TEST(Experts, MemoryOfARankByHand) {
  const double others = 1'605'636'096, experts = 45'097'156'608.0 / 8;
  const Predicted made(mixtral("data: 16, expert: 8, zero: 1"));
  EXPECT_EQ(part(made.graph, MemoryUse::Parameters), static_cast<std::int64_t>(2 * (others + experts)));
  EXPECT_EQ(part(made.graph, MemoryUse::Gradients), static_cast<std::int64_t>(4 * (others + experts)));
  EXPECT_EQ(part(made.graph, MemoryUse::Optimizer), static_cast<std::int64_t>(12 * (others / 16 + experts / 2)));
  // Two ranks of a tensor group divide all but the norms and routers; whole experts lie over all 16 devices.
  const Predicted folded(mixtral("tensor: 2, data: 8, sequence_parallel: true, expert: 8, expert_tensor: 1, zero: 1"));
  const double whole = 32 * 2 * 4096 + 4096 + 32 * 8 * 4096;
  EXPECT_EQ(part(folded.graph, MemoryUse::Parameters), static_cast<std::int64_t>(2 * ((others - whole) / 2 + whole + experts)));
  EXPECT_EQ(part(folded.graph, MemoryUse::Optimizer),
            static_cast<std::int64_t>(std::ceil(12 * (((others - whole) / 2 + whole) / 8 + experts / 2))));
}

// One replica divides nothing, so that no stage of ZeRO changes anything: in 8 bits too, where weights that are gathered are cast
// in every microbatch. Experts alone are divided where several ranks of a tensor group hold the same.
TEST(Zero, ChangesNothingAtOneReplica) {
  const auto made = [](const std::string& model, const std::string& parallel) {
    const Predicted one("panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/" + model +
                        ".json, layers: 2, sequence: 1024}\nbatch: {micro: 1, microbatches: 8}\nprecision: fp8\nparallel: {" +
                        parallel + "}\nschedule: 1f1b\nframework: megatron-core\n");
    const Timeline timeline = estimate(one.graph);
    return std::pair(timeline.step_time.base(), timeline.devices.front().peak);
  };
  for (const std::string parallel : {"pipeline: 1", "pipeline: 2, tensor: 2, sequence_parallel: true"}) {
    const auto plain = made("llama-3-8b", parallel);
    for (const char* zero : {", zero: 1", ", zero: 2", ", zero: 3", ", zero: 3, shard: 1"})
      EXPECT_EQ(made("llama-3-8b", parallel + zero), plain) << parallel << zero;
  }
  const std::string folded = "pipeline: 1, tensor: 8, sequence_parallel: true, expert: 4, expert_tensor: 1";
  EXPECT_LT(made("mixtral-8x7b", folded + ", zero: 3").second, made("mixtral-8x7b", folded).second);
}

// A layer's experts on the busiest rank: 1.5 times the rows, 1.5 times the products; and 1.5 times the bytes received.
TEST(Experts, ImbalanceStretchesProductsAndExchanges) {
  const auto unit = [](const Predicted& made) {
    const WorkloadCost& cost = made.experiment.model.workload(0);
    return *std::find_if(cost.units.begin(), cost.units.end(), [](const UnitCost& u) { return u.name == "h.1.mlp"; });
  };
  const Predicted even(mixtral("data: 16, expert: 8")), uneven(mixtral("data: 16, expert: 8", "experts: {imbalance: 1.5}\n"));
  EXPECT_NEAR(unit(uneven).forward.breakdown.work.base() / unit(even).forward.breakdown.work.base(), 1.5,
              1e-3);  // but the router
  EXPECT_NEAR(unit(uneven).forward.breakdown.compute / unit(even).forward.breakdown.compute, 1.5, 0.02);
  const auto sent = [](const Predicted& made) {
    for (const CollectiveCost& cost : made.experiment.model.workload(0).collectives)
      if (cost.among == Among::Expert && cost.kind == CollectiveKind::AllToAll) return cost;
    return CollectiveCost{};
  };
  EXPECT_EQ(sent(even).kind, CollectiveKind::AllToAll);
  EXPECT_EQ(sent(even).members, 8);
  EXPECT_EQ(sent(even).bytes, Bytes(4096 * 2 * 4096 * 2));
  EXPECT_EQ(sent(even).wire_bytes, Bytes(4096 * 2 * 4096 * 2 / 8 * 7));
  EXPECT_EQ(sent(uneven).bytes.base(), sent(even).bytes.base() * 3 / 2);
  EXPECT_EQ(uneven.graph.model_flops_per_step.base(), even.graph.model_flops_per_step.base());
}

// A heading, a comment, numbers between commas and spaces. The busiest of 4 ranks has 2 in the first layer and 1 in the
// second, 1.5 in the mean: as with that imbalance, in rows, bytes and memory.
TEST(Experts, AHistogramFromAFile) {
  const std::string file =
      test::scratch().write("router.csv", "e0,e1,e2,e3,e4,e5,e6,e7\n# counted\n250,150,150,50,80,70,30,20\n3 3 3 3 3 3 3 3\n");
  const Predicted read(mixtral("data: 16, expert: 4", "experts: {tokens: " + file + "}\n"));
  const Predicted stated(mixtral("data: 16, expert: 4", "experts: {imbalance: 1.5}\n"));
  EXPECT_EQ(read.experiment.scenario.expert_load.tokens,
            (std::vector<std::vector<double>>{{250, 150, 150, 50, 80, 70, 30, 20}, {3, 3, 3, 3, 3, 3, 3, 3}}));
  const Timeline of_file = estimate(read.graph), of_number = estimate(stated.graph);
  EXPECT_DOUBLE_EQ(of_file.step_time.base(), of_number.step_time.base());
  EXPECT_EQ(of_file.devices.front().peak, of_number.devices.front().peak);
  EXPECT_GT(of_file.devices.front().peak, estimate(Predicted(mixtral("data: 16, expert: 4")).graph).devices.front().peak);
}

// Layers of three computations with an all-to-all of a seconds behind the first and the second, forwards and backwards, and a sum
// of the tensor group of t seconds before the first.
double step(const std::string& schedule, int microbatches, double a, double c = 10e-3, double t = 0) {
  constexpr int kRanks = 4;
  test::TableCosts costs = test::chain_of(4 * kRanks, 0, 0, 0);
  CollectiveCost cost;
  cost.kind = CollectiveKind::AllToAll;
  cost.among = Among::Expert;
  cost.time = Duration(a);
  CollectiveCost sum;
  sum.time = Duration(t);
  costs.table.collectives = {cost, sum};
  for (UnitCost& unit : costs.table.units) {
    for (PassCost* pass : {&unit.forward, &unit.input_gradient}) {
      pass->pieces.clear();
      if (t > 0) {
        test::add_collective(*pass, sum.time);
        pass->pieces.back().collective_id = 1;
      }
      for (int piece = 0; piece < 3; ++piece) {
        if (piece > 0 && a > 0) test::add_collective(*pass, cost.time);
        pass->pieces.push_back({false, false, Duration(c)});
      }
    }
    unit.weight_gradient = test::pass_of(3 * c);
  }
  const Scenario scenario = test::scenario_of(kRanks, microbatches, schedule);
  return estimate(lowered(scenario, costs)).step_time.base();
}

// In the steady state of DualPipe forwards and backwards are groups: all-to-alls no longer than the computation before them take
// nothing. 1F1B waits for each: 4 units of a rank, 2 + 2 each.
TEST(Experts, GroupsHideAllToAlls) {
  const auto more = [](const std::string& schedule, double a) { return step(schedule, 32, a) - step(schedule, 16, a); };
  EXPECT_NEAR(more("dualpipe", 8e-3), more("dualpipe", 0), 1e-9);
  EXPECT_NEAR(more("1f1b", 8e-3), more("1f1b", 0) + 16 * 4 * 4 * 8e-3, 1e-9);
  EXPECT_GT(more("dualpipe", 30e-3), more("dualpipe", 0) + 0.1);
}

// A sum of the tensor group is on another link than the other member's all-to-all: in each of 16 microbatches and 4 units a
// forward and a backward wait for their own, 2 t. In the lane of the all-to-all they would wait for that, too.
TEST(Experts, SumsOfATensorGroupDoNotQueueBehindAllToAlls) {
  const auto more = [](double t) { return step("dualpipe", 32, 8e-3, 10e-3, t) - step("dualpipe", 16, 8e-3, 10e-3, t); };
  EXPECT_NEAR(more(1e-3), more(0) + 16 * 4 * 2 * 1e-3, 1e-9);
}

// DeepSeek-V3 on 2,048 H800: 180,000 GPU hours per 10^12 tokens (arXiv 2412.19437, table 1), of 15,360 x 4,096 tokens a step:
// 19.9 s, without a key that states how its tokens travel.
TEST(Experts, DeepSeekTakesItsPublishedStep) {
  const Predicted run(
      "panpipe: 1\ncluster: {file: clusters/h800x8.yaml, nodes: 256}\nworkload: {config: workloads/deepseek-v3.json, sequence: "
      "4096}\nbatch: {micro: 1, global: 15360}\nprecision: fp8\nparallel: {pipeline: 16, data: 128, expert: 64, zero: "
      "1}\nschedule: dualpipe\nframework: megatron-core\n");
  const double published = 180e3 * 3600 / 2048 * 15360 * 4096 / 1e12;
  EXPECT_NEAR(estimate(run.graph).step_time.base() / published, 0.95, 0.02);  // 19.0 s
}

}  // namespace
}  // namespace panpipe
