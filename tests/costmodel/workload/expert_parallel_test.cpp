// Experts over ranks: which weights a rank holds, which rows come to it, and what it sends for that.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "base/input/reader.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {
namespace {

std::string shipped(const std::string& name) { return data_directory() + "/workloads/" + name + ".json"; }

Workload make(const std::string& model, const WorkloadShape& shape, int sequence = 4096) {
  WorkloadRequest request;
  request.sequence = sequence;
  request.config = std::make_shared<ModelConfig>(read_model_config(shipped(model), sequence));
  return make_workload(request, shape);
}

struct Held {
  std::int64_t experts = 0, others = 0;
};
Held held(const OperatorGraph& graph) {
  Held sum;
  for (const Tensor& tensor : graph.tensors)
    if (tensor.role == TensorRole::Parameter && tensor.tied_to < 0)
      (tensor.experts ? sum.experts : sum.others) += tensor.elements();
  return sum;
}

// Mixtral 8x7B: 32 layers of 8 experts of 3 x 4096 x 14336 are 45,097,156,608 of its 46,702,792,704 parameters.
TEST(ExpertParallel, ARankHoldsItsExpertsAndAllElse) {
  for (const int degree : {2, 4, 8}) {
    const Workload workload = make("mixtral-8x7b", {.degrees = {.micro = 1, .expert = degree}});
    EXPECT_EQ(held(*workload.graph).experts, 45'097'156'608 / degree);
    EXPECT_EQ(held(*workload.graph).others, 1'605'636'096);
    EXPECT_EQ(workload.parameters, 46'702'792'704);
    EXPECT_NO_THROW(workload.graph->check());
  }
}

// The sends of each layer of a rank in the forward: (operator, bytes).
std::vector<std::pair<std::string, std::int64_t>> sent(const Workload& workload) {
  std::vector<std::pair<std::string, std::int64_t>> found;
  const auto works = count_work(*workload.graph);
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Operator& op = workload.graph->operators[i];
    if (op.among == Among::Expert || op.target.ends_with("_rows"))
      found.emplace_back(op.target, works[i].collective_bytes.base());
  }
  return found;
}

// 4096 tokens of 2 experts, 4096 features of 2 bytes: 67,108,864 bytes to the experts and as many back, in each of 32 layers; of
// sequence parallelism's halves each rank sends its own, and ranks that divide an expert gather what both of them received.
TEST(ExpertParallel, ALayerSendsItsRowsAndTheyComeBack) {
  const std::int64_t all = 4096LL * 2 * 4096 * 2;
  const auto whole = sent(make("mixtral-8x7b", {.degrees = {.micro = 1, .expert = 8}, .precision = Precision::Bf16}));
  ASSERT_EQ(whole.size(), 64U);
  EXPECT_EQ(whole[0], std::pair(std::string("panpipe::send_to_experts"), all));
  EXPECT_EQ(whole[1], std::pair(std::string("panpipe::send_back"), all));
  WorkloadShape halves{.degrees = {.tensor = 2, .micro = 1, .expert = 8, .expert_tensor = 1, .sequence_parallel = true},
                       .precision = Precision::Bf16};
  EXPECT_EQ(sent(make("mixtral-8x7b", halves))[0].second, all / 2);
  halves.degrees.expert_tensor = 2;
  const auto gathered = sent(make("mixtral-8x7b", halves));
  ASSERT_EQ(gathered.size(), 128U);
  EXPECT_EQ(gathered[0].second, all / 2);
  EXPECT_EQ(gathered[1], std::pair(std::string("panpipe::gather_rows"), all));
  EXPECT_EQ(gathered[2], std::pair(std::string("panpipe::scatter_rows"), all));
  EXPECT_EQ(gathered[3].second, all / 2);
}

// One rank of experts is what no word about it is.
TEST(ExpertParallel, OneRankSendsNothing) {
  const Workload workload = make("mixtral-8x7b", {.degrees = {.micro = 1, .expert = 1}, .precision = Precision::Bf16});
  EXPECT_TRUE(sent(workload).empty());
  EXPECT_EQ(held(*workload.graph).experts, 0);
  EXPECT_EQ(workload.graph->to_text(),
            make("mixtral-8x7b", {.degrees = {.micro = 1}, .precision = Precision::Bf16}).graph->to_text());
}

struct Rows {
  std::int64_t groups = 0, each = 0;
  double flops = 0;
};
Rows first_experts(const Workload& workload) {
  const auto works = count_work(*workload.graph);
  for (std::size_t i = 0; i < works.size(); ++i)
    if (workload.graph->operators[i].target == "panpipe_nn::grouped_linear")
      return {works[i].forward.gemms[0].batch, works[i].forward.gemms[0].m, works[i].forward.flops.base()};
  return {};
}

// Evenly spread, a rank computes as many rows as before, of fewer experts; whatever divides them, the ranks of a tensor group
// together do the work of one device.
TEST(ExpertParallel, WorkIsTheSameUnderAllDegrees) {
  const Workload one = make("qwen3-30b-a3b", {.degrees = {.micro = 2}, .precision = Precision::Bf16});
  const Rows whole = first_experts(one);
  EXPECT_EQ(whole.groups, 128);
  EXPECT_EQ(whole.each, 2 * 4096 * 8 / 128);
  for (const int tensor : {1, 2, 4})
    for (const int expert : {1, 2, 8, 64})
      for (const int width : {1, 0}) {
        if (tensor == 1 && width == 0) continue;  // the same
        const Workload workload =
            make("qwen3-30b-a3b",
                 {.degrees = {.tensor = tensor, .micro = 2, .expert = expert, .expert_tensor = width, .sequence_parallel = true},
                  .precision = Precision::Bf16});
        EXPECT_NO_THROW(workload.graph->check());
        EXPECT_DOUBLE_EQ(workload.model_flops.base(), one.model_flops.base()) << tensor << " " << expert << " " << width;
        const Rows rows = first_experts(workload);
        EXPECT_EQ(rows.groups, 128 / expert);
        EXPECT_DOUBLE_EQ(rows.flops * tensor, whole.flops) << tensor << " " << expert << " " << width;
        EXPECT_EQ(workload.parameters, one.parameters);
      }
}

ExpertLoad stated(std::optional<double> imbalance, std::optional<double> capacity) {
  ExpertLoad load;
  load.imbalance = imbalance;
  load.capacity = capacity;
  return load;
}

// The busiest of 8 ranks receives 1.5 times the mean. A capacity of 1.25 pads every expert to it and cuts more off, however the
// tokens fall. Work of the model is what its tokens ask for.
TEST(ExpertParallel, ImbalanceAndCapacityScaleRows) {
  const auto rows = [](ExpertLoad load, int degree = 8) {
    const Workload workload = make("mixtral-8x7b", {.degrees = {.micro = 1, .expert = degree}, .expert_load = load});
    EXPECT_DOUBLE_EQ(workload.model_flops.base(), make("mixtral-8x7b", {.degrees = {.micro = 1}}).model_flops.base());
    return first_experts(workload).each;
  };
  EXPECT_EQ(rows({}), 8192);  // one expert a rank; 4096 tokens x 2 from each of 8 ranks, an eighth of them
  EXPECT_EQ(rows(stated(1.5, std::nullopt)), 12288);
  EXPECT_EQ(rows(stated(std::nullopt, 1.25)), 10240);
  EXPECT_EQ(rows(stated(1.5, 1.25)), 10240);
  EXPECT_EQ(rows(stated(1.125, 1.25)), 10240);
  EXPECT_EQ(rows(stated(1, 2.5)), 20480);  // the default imbalance, stated
  EXPECT_EQ(rows(stated(std::nullopt, 0.5)), 4096);
  EXPECT_EQ(rows(stated(1.5, std::nullopt), 1), 1024);  // one rank has all experts: no rank is busier
  EXPECT_EQ(rows(stated(std::nullopt, 2), 1), 2048);
}

// With a capacity sends are padded; without one the rows of the busiest rank count.
TEST(ExpertParallel, TheBusiestRankReceivesMore) {
  const auto bytes = [](ExpertLoad load) {
    return sent(
               make("mixtral-8x7b", {.degrees = {.micro = 1, .expert = 8}, .precision = Precision::Bf16, .expert_load = load}))[0]
        .second;
  };
  const std::int64_t even = bytes({});
  EXPECT_EQ(bytes(stated(1.5, std::nullopt)), even * 3 / 2);
  EXPECT_EQ(bytes(stated(std::nullopt, 0.5)), even / 2);
  EXPECT_EQ(bytes(stated(3, 1.25)), even * 5 / 4);
}

// A shared expert is a dense MLP of all tokens: the tensor group gathers them for it alone.
TEST(ExpertParallel, SharedExpertsAreDense) {
  const Workload workload =
      make("deepseek-v3", {.degrees = {.tensor = 2, .micro = 1, .expert = 64, .expert_tensor = 1, .sequence_parallel = true},
                           .precision = Precision::Bf16});
  int dense = 0;
  for (const Operator& op : workload.graph->operators) {
    if (op.module.find("shared_experts.down_proj") == std::string::npos || op.target != "aten::linear") continue;
    const Tensor& input = workload.graph->tensors[std::get<TensorRef>(op.arguments[0]).tensor];
    EXPECT_EQ(input.shape, (Shape{1, 4096, 1024}));
    ++dense;
  }
  EXPECT_EQ(dense, 58);
}

// Copies of a token that cross to other nodes: docs/models/expert-parallelism.md.
TEST(ExpertParallel, TheGraphKnowsHowTokensChoose) {
  const Routing deepseek = make("deepseek-v3", {.degrees = {.micro = 1}}).graph->routing;
  EXPECT_EQ(deepseek.experts, 256);
  EXPECT_EQ(deepseek.per_token, 8);
  EXPECT_EQ(deepseek.groups, 8);
  EXPECT_EQ(deepseek.groups_per_token, 4);
}

}  // namespace
}  // namespace panpipe
