// Muon on hidden matrices and AdamW on the rest: equal to one process on data ranks, with ZeRO 1, on pipeline ranks and across
// checkpoints. muon_reference_test.py compares a step with torch.optim.Muon.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <tuple>

#include "costmodel/prediction/experiment.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/optimizer.hpp"
#include "exec/engine/training/optimizer_groups.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

// AdamW's epsilon hides gradients that are rounding errors alone (a key's bias has none), which it would turn into steps.
const std::string kMuon = "optimizer: {name: muon, learning_rate: 0.002, update_scale: match-rms, epsilon: 0.01}\n";

std::string with_zero(std::string scenario, int data, int zero) {
  const std::string plain = fmt::format("data: {}}}", data);
  return scenario.replace(scenario.find(plain), plain.size(), fmt::format("data: {}, zero: {}}}", data, zero));
}

std::string with_tensor(std::string scenario, int tensor) {
  const std::string parallel = "parallel: {", devices = "devices: ";
  scenario.replace(scenario.find(parallel), parallel.size(), fmt::format("parallel: {{tensor: {}, ", tensor));
  const std::size_t count = scenario.find(devices) + devices.size(), end = scenario.find(',', count);
  const int before = std::stoi(scenario.substr(count, end - count));
  return scenario.replace(count, end - count, std::to_string(before * tensor));
}

// Five steps leave singular values near 1 (0.68 to 1.13 for this polynomial), whatever they were.
TEST(NewtonSchulz, MakesAMatrixOrthogonal) {
  for (const auto& [rows, columns] : {std::pair(8, 24), std::pair(24, 8), std::pair(16, 16)}) {
    at::manual_seed(1);
    const at::Tensor matrix = at::randn({rows, columns}) * 100;
    const at::Tensor factor = newton_schulz(matrix, 5).to(at::kFloat);
    ASSERT_EQ(factor.sizes(), matrix.sizes());
    const at::Tensor values = at::linalg_svdvals(factor);
    if (rows != columns) {  // a square one has small values, which need more steps
      EXPECT_GT(values.min().item<double>(), 0.6);
    }
    EXPECT_LT(values.max().item<double>(), 1.25);
  }
}

TEST(NewtonSchulz, ScalesAreThoseOfTorchAndMegatron) {
  EXPECT_DOUBLE_EQ(update_scale(UpdateScale::Original, 64, 16), 2);
  EXPECT_DOUBLE_EQ(update_scale(UpdateScale::Original, 16, 64), 1);
  EXPECT_DOUBLE_EQ(update_scale(UpdateScale::MatchRms, 16, 64), 0.2 * 8);
  EXPECT_DOUBLE_EQ(update_scale(UpdateScale::Spectral, 64, 16), 8);
}

// A gradient of another shape makes the update of the matrix fail, before anything has changed. The next step is the first one,
// also for the bias correction of Adam, which steps the vector.
TEST(Optimizer, AStepAfterOneThatFailedIsAsIfThatHadNotBeen) {
  OptimizerRequest request;
  request.name = "muon";
  request.learning_rate = 0.1;
  const std::vector<ParameterNumbers> numbers{{0.1, 0, true}, {0.1, 0, false}};
  const auto start = [] { return std::vector<at::Tensor>{at::eye(2), at::ones({3})}; };
  const std::vector<at::Tensor> gradients{at::arange(4, at::kFloat).reshape({2, 2}), at::arange(3, at::kFloat)};
  const std::vector<at::Tensor> expected = start(), found = start();
  Optimizer one(request, {}, expected, numbers), other(request, {}, found, numbers);
  EXPECT_THROW(other.step({at::ones({5, 7}), gradients[1]}, 0), c10::Error);
  for (int update = 0; update < 2; ++update) {
    one.step(gradients, update);
    other.step(gradients, update);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
}

// Experts are stepped one by one, as if each were a parameter of its own.
TEST(Muon, StepsEachExpertAlone) {
  OptimizerRequest request;
  request.name = "muon", request.momentum = 0.95, request.weight_decay = 0.1, request.learning_rate = 0.1;
  at::manual_seed(2);
  const at::Tensor experts = at::randn({3, 8, 6}), gradient = at::randn({3, 8, 6});
  const at::Tensor before = experts.clone();
  Optimizer together(request, {}, {experts});
  together.step({gradient}, 0);
  for (std::int64_t e = 0; e < 3; ++e) {
    const at::Tensor one = before.select(0, e).clone();
    Optimizer alone(request, {}, {one});
    alone.step({gradient.select(0, e)}, 0);
    EXPECT_TRUE(at::equal(experts.select(0, e), one));
    EXPECT_FALSE(at::allclose(one, before.select(0, e), 1e-3, 1e-3));
  }
}

TEST(Muon, TakesHiddenMatricesAndLeavesTheRestToAdamW) {
  const Folder folder;
  const Experiment experiment(load_scenario(folder.write("s.yaml", small_gpt(1, 1, 1, kMuon))));
  const OperatorGraph& graph = *experiment.workload.graph;
  std::vector<std::string> matrices;
  for (const auto& [root, numbers] : parameter_numbers(graph, experiment.scenario))
    if (numbers.matrix && graph.tensors[root].name.find(".h.0.") != std::string::npos)
      matrices.push_back(graph.tensors[root].name);
  std::sort(matrices.begin(), matrices.end());
  EXPECT_EQ(matrices, (std::vector<std::string>{"transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                                                "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"}));
}

// Gradients differ by 1e-7 between meshes, so that an element of an update, 0.036 in the mean, may be rounded to 8 bits the other
// way round: by 0.036 x 2^-8. Five iterations multiply small singular values by up to 3.44^5 = 485, and the step by 0.002 x 1.4:
// 2e-4 of a weight of 0.06 at most.
TEST(Muon, EveryMeshEqualsOneProcess) {
  const Trained one = train(small_gpt(1, 1, 4, kMuon), 3);
  ASSERT_EQ(one.losses.size(), 3u);
  EXPECT_LT(one.losses[2], one.losses[0]);
  EXPECT_TRUE(one.state.count("transformer.h.0.mlp.c_fc.weight.momentum_buffer"));
  EXPECT_FALSE(one.state.count("transformer.h.0.mlp.c_fc.weight.exp_avg"));
  EXPECT_TRUE(one.state.count("transformer.wte.weight.exp_avg_sq"));
  for (const auto& [pipeline, data] : {std::pair(2, 1), {1, 2}, {2, 2}, {4, 1}, {1, 4}}) {
    SCOPED_TRACE(fmt::format("pipeline {} x data {}", pipeline, data));
    expect_equal(train(small_gpt(pipeline, data, 4 / data, kMuon), 3), one, 0.02);
  }
}

// Each replica steps whole matrices of its own, and the others take the result: the same bits as where each steps all.
TEST(Muon, LayersOverReplicasChangeNothing) {
  for (const auto& [pipeline, data] : {std::pair(1, 2), {2, 2}, {1, 4}}) {
    SCOPED_TRACE(fmt::format("pipeline {} x data {}", pipeline, data));
    const std::string plain = small_gpt(pipeline, data, 4 / data, kMuon);
    const Trained whole = train(plain, 3), layers = train(with_zero(plain, data, 1), 3);
    EXPECT_EQ(layers.losses, whole.losses);
    expect_bit_equal(layers.state, whole.state);
  }
}

// Tensor-parallel ranks hold rows or columns of a matrix, and of fused query, key and value a part of each. Each gathers the
// whole and takes its part of the update.
TEST(Muon, TensorRanksStepTheWholeMatrix) {
  const Trained one = train(small_gpt(1, 1, 4, kMuon), 3);
  for (const auto& [pipeline, data, zero] : {std::tuple(1, 1, 0), {2, 1, 0}, {1, 2, 0}, {1, 2, 1}}) {
    SCOPED_TRACE(fmt::format("tensor 2 x pipeline {} x data {}, zero {}", pipeline, data, zero));
    expect_equal(train(with_zero(with_tensor(small_gpt(pipeline, data, 4 / data, kMuon), 2), data, zero), 3), one, 0.02);
  }
}

// Blockwise a rank steps its shard alone: another update.
TEST(Muon, ShardsAreSteppedAloneWhereAsked) {
  const std::string whole = with_tensor(small_gpt(1, 1, 4, kMuon), 2);
  std::string blockwise = whole;
  blockwise.replace(blockwise.find("epsilon"), 0, "tensor_mode: blockwise, ");
  EXPECT_NE(train(blockwise, 2).losses[1], train(whole, 2).losses[1]);
}

// Under ZeRO 2 and 3 a replica holds some elements of a matrix, some replica none of it. All gather it.
TEST(Muon, DividedGradientsAndParametersChangeNothing) {
  for (const auto& [pipeline, data, tensor] : {std::tuple(1, 2, 1), {2, 2, 1}, {1, 4, 1}, {1, 2, 2}}) {
    const std::string plain = with_tensor(small_gpt(pipeline, data, 4 / data, kMuon), tensor);
    const Trained whole = train(plain, 3);
    for (const int zero : {2, 3}) {
      SCOPED_TRACE(fmt::format("pipeline {} x data {} x tensor {}, zero {}", pipeline, data, tensor, zero));
      expect_equal(train(with_zero(plain, data, zero), 3), whole, 0.02);
    }
  }
}

// Written on two pipeline ranks of two replicas that divide the matrices, gone on with on one rank, and the other way round.
TEST(Muon, ChecksInAndOutOnAnyRanks) {
  const std::string one = small_gpt(1, 1, 4, kMuon), four = with_zero(small_gpt(2, 2, 2, kMuon), 2, 1);
  const auto same = resumed(four, four);
  expect_bit_equal(resumed(four, four), same);
  const auto whole = resumed(one, one);
  expect_close(resumed(four, one), whole, 0.02);
  expect_close(resumed(one, four), whole, 0.02);
  const std::string divided = with_zero(with_tensor(small_gpt(1, 2, 2, kMuon), 2), 2, 3);
  expect_close(resumed(divided, one), whole, 0.02);
  expect_close(resumed(one, divided), whole, 0.02);
}

TEST(Muon, WhatTheExecutorLacksIsRefusedByName) {
  const Folder folder;
  const auto fault = [&](const std::string& scenario) {
    return test::fault_of([&] { const PreparedRun run(quiet(folder.write("s.yaml", scenario), 1)); });
  };
  EXPECT_THAT(fault(small_gpt(1, 1, 1, "optimizer: soap\n")), HasSubstr("the executor has no soap: it is predicted and not run"));
  EXPECT_THAT(fault(small_gpt(1, 1, 1, "optimizer: shampoo\n")), HasSubstr("the executor has no shampoo"));
  std::string layers = with_tensor(small_gpt(1, 1, 1, kMuon), 2);
  layers.replace(layers.find("epsilon"), 0, "tensor_mode: layers, ");
  EXPECT_THAT(fault(layers), HasSubstr("each step the whole matrix, or each its shard"));
  std::string shared = with_zero(small_gpt(1, 2, 2, kMuon), 2, 2);
  shared.replace(shared.find("epsilon"), 0, "sharding: layers, ");
  EXPECT_THAT(fault(shared), HasSubstr("under zero 2 the executor's replicas each step all matrices"));
}

}  // namespace
}  // namespace panpipe::exec
