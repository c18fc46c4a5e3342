// Experts over several ranks compute what one process with all of them computes: tokens travel to the ranks of their experts and
// back, and their gradients the same way.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "exec/engine/tensor_parallel_shards.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

WorkloadShape shape_of(int expert, int tensor = 1, int expert_tensor = 0) {
  WorkloadShape shape;
  shape.degrees.micro = 2;
  shape.precision = Precision::Fp32;
  shape.degrees.tensor = tensor;
  shape.degrees.sequence_parallel = tensor > 1;
  shape.degrees.expert = expert;
  shape.degrees.expert_tensor = expert_tensor;
  return shape;
}

Trained experts_alone(const std::string& model, int microbatches) {
  return alone(small_config_model(model, shape_of(1)), microbatches);
}

// Mixtral; shared experts with a gate; shared experts, latents and a first layer without experts; biases and transposed weights.
const std::vector<std::string> kModels = {"mixtral", "qwen2_moe", "deepseek_v3", "gpt_oss"};

TEST(ExpertParallel, EqualsOneProcess) {
  for (const std::string& model : kModels) {
    const Trained one = experts_alone(model, 4);
    for (const int experts : {2, 4}) {
      SCOPED_TRACE(model + " over " + std::to_string(experts));
      const Workload workload = small_config_model(model, shape_of(experts));
      expect_equal(one, train(workload, "gpipe", 1, 4 / experts, experts));
    }
  }
}

TEST(ExpertParallel, EqualsOneProcessWhereSeveralRanksHoldTheSameExperts) {
  const Workload workload = small_config_model("mixtral", shape_of(2));
  expect_equal(experts_alone("mixtral", 4), train(workload, "gpipe", 1, 1, 4));
}

TEST(ExpertParallel, EqualsOneProcessInsideAPipeline) {
  for (const std::string model : {"mixtral", "deepseek_v3"}) {
    const Trained one = experts_alone(model, 8);
    const Workload workload = small_config_model(model, shape_of(2));
    for (const std::string family : {"1f1b", "zb-h1", "dualpipe", "dualpipe-v"}) {
      SCOPED_TRACE(model + " " + family);
      expect_equal(one, train(workload, family, 2, 4, 2));
    }
  }
}

TEST(ExpertParallel, EqualsOneProcessWithRecompute) {
  const Workload workload = small_config_model("mixtral", shape_of(2));
  const Trained one = experts_alone("mixtral", 8);
  for (const std::string family : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(family);
    expect_equal(one, train(workload, make_schedule(family, 2, 4), 2, Recompute::Full));
  }
}

// Tensor parallelism divides all but the experts (expert_tensor 1), or the experts too; alone, and with expert groups along the
// tensor-parallel ranks, or across them.
TEST(ExpertParallel, EqualsOneProcessWithTensorParallelism) {
  for (const std::string& model : kModels) {
    const Trained one = experts_alone(model, 4);
    for (const auto& [expert, expert_tensor, data] :
         {std::tuple{1, 1, 1}, {2, 1, 1}, {2, 1, 2}, {4, 1, 2}, {2, 0, 2}, {2, 0, 4}}) {
      SCOPED_TRACE(model + " expert " + std::to_string(expert) + " expert_tensor " + std::to_string(expert_tensor) + " data " +
                   std::to_string(data));
      const Workload workload = small_config_model(model, shape_of(expert, 2, expert_tensor));
      expect_equal(one, train(workload, "gpipe", 1, 4 / data, data));
    }
  }
}

// A router that sends every token to the last two of four experts: the other ranks' experts get none, and learn nothing.
TEST(ExpertParallel, EqualsOneProcessWhereRanksGetNoTokens) {
  const auto biased = [](const WorkloadShape& shape) {
    Workload workload = small_config_model("deepseek_v3", shape);
    for (Tensor& tensor : workload.graph->tensors)
      if (tensor.name.ends_with("e_score_correction_bias")) tensor.init = "arange(0)";
    return workload;
  };
  const Workload whole = biased(shape_of(1));
  const Trained one = alone(whole, 4);
  const at::Tensor idle = one.gradients.at("model.layers.1.mlp.experts.gate_up_proj").narrow(0, 0, 2);
  ASSERT_EQ(idle.abs().max().item<float>(), 0);
  for (const int experts : {2, 4})
    for (const std::string family : {"gpipe", "zb-h1"}) {
      SCOPED_TRACE(family + " over " + std::to_string(experts));
      const Workload workload = biased(shape_of(experts));
      const int ranks = family == "gpipe" ? 1 : 2;
      expect_equal(one, train(workload, family, ranks, 4 / experts, experts));
    }
}

// All-to-alls stand on the tensor lane under the name that predictions give them: two a layer and direction.
TEST(ExpertParallel, ExchangesStandOnTheTensorLane) {
  const Workload workload = small_config_model("mixtral", shape_of(2));
  const Trained run = train(workload, "gpipe", 1, 1, 2);
  for (const auto& spans : run.spans) {
    int forward = 0, backward = 0;
    for (const Span& span : spans) {
      if (span.lane != Lane::Tensor) continue;
      EXPECT_EQ(span.label, "expert all_to_all");
      EXPECT_LE(span.start, span.end);
      ++(span.action.kind == ActionKind::F ? forward : backward);
    }
    EXPECT_EQ(forward, 4 * 2);
    EXPECT_EQ(backward, 4 * 2);
  }
}

// Of 4 experts over 2 x 2 ranks (2 that divide a width of 6) each device has 2 experts and 3 columns of them.
TEST(Shards, OfExpertsAreCutTwice) {
  Tensor parameter;
  parameter.experts = true;
  parameter.full_shape = {4, 1, 6};
  parameter.shape = {2, 1, 3};
  parameter.shard_dimension = 2;
  Degrees groups;
  groups.tensor = groups.expert = groups.expert_tensor = 2;
  const at::Tensor whole = at::arange(24, at::kFloat).reshape({4, 1, 6});
  const at::Tensor third = shard_of(parameter, whole, 2, groups);  // experts 2 and 3, columns 0 to 2
  EXPECT_TRUE(third.flatten().equal(at::tensor({12, 13, 14, 18, 19, 20}, at::kFloat)));
  EXPECT_TRUE(shard_of(parameter, whole, 6, groups).equal(third)) << "devices 4 to 7 hold all of it once more";
  EXPECT_EQ(first_holders(parameter, groups), (std::vector<int>{0, 1, 2, 3}));
  std::vector<at::Tensor> shards;
  for (const int device : first_holders(parameter, groups)) shards.push_back(shard_of(parameter, whole, device, groups));
  EXPECT_TRUE(whole_of(parameter, shards).equal(whole));
  // A bias that both halves of an expert hold: one of them stands for it, and their gradients add up.
  parameter.full_shape = {4, 6};
  parameter.shape = {2, 6};
  parameter.shard_dimension = -1;
  parameter.gradient_partial = true;
  EXPECT_EQ(first_holders(parameter, groups), (std::vector<int>{0, 2}));
  EXPECT_EQ(gradient_peers(parameter, 7, groups), (std::vector<int>{6, 7}));
}

}  // namespace
}  // namespace panpipe::exec
