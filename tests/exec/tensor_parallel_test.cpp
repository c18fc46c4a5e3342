// Stages cut over tensor-parallel ranks compute what one process computes, pass by pass and woven.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/engine/braid_order.hpp"
#include "exec/engine/stage/segments.hpp"
#include "exec/engine/stage/vocabulary_loss.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

TEST(TensorParallel, EqualsOneProcess) {
  for (const std::string model : {"gpt", "llama", "bert", "vit", "mllm"}) {
    const Trained one = alone(model, 4);
    for (const int degree : {2, 4}) {
      SCOPED_TRACE(model + " over " + std::to_string(degree));
      const Workload workload = small_model(model, degree);
      expect_equal(one, train(workload, "gpipe", 1, 4));
    }
  }
}

TEST(TensorParallel, EqualsOneProcessInsideAPipeline) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    const Trained one = alone(model, 4);
    const Workload workload = small_model(model, 2);
    for (const std::string family : {"1f1b", "zb-h1"}) {
      SCOPED_TRACE(model + " " + family);
      expect_equal(one, train(workload, family, 2, 4));
    }
    SCOPED_TRACE(model + " interleaved");
    expect_equal(one, train(workload, "interleaved-1f1b", 2, 4, 1, {{"stages_per_rank", "2"}}));
  }
}

// Groups of a forward and a backward: their steps take turns, which must change nothing.
TEST(TensorParallel, EqualsOneProcessWhenWoven) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    SCOPED_TRACE(model);
    const Workload workload = small_model(model, 2);
    const Plan plan = plan_of(*workload.graph, "interleaved-1f1b", 2, 8, 1, {{"combined", "true"}});
    const auto& row = plan.schedule.order.front();
    ASSERT_TRUE(std::any_of(row.begin(), row.end(), [](const Action& action) { return action.group_size == 2; }));
    const Trained woven = train(*workload.graph, plan);
    expect_equal(alone(model, 8), woven);
    // A forward and a backward overlap on the compute lane of some rank: they did take turns.
    int overlapping = 0;
    for (const Span& a : woven.spans.front())
      for (const Span& b : woven.spans.front())
        overlapping += a.lane == Lane::Compute && b.lane == Lane::Compute && a.action.kind == ActionKind::F &&
                       b.action.kind == ActionKind::B && a.start < b.end && b.start < a.end;
    EXPECT_GT(overlapping, 4);
  }
}

TEST(TensorParallel, EqualsOneProcessWithReplicasAndRecompute) {
  const Workload workload = small_model("gpt", 2);
  const Trained one = alone("gpt", 4);
  expect_equal(one, train(workload, "1f1b", 2, 2, 2));
  for (const std::string family : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(family);
    expect_equal(one, train(workload, make_schedule(family, 2, 4), 1, Recompute::Full));
  }
}

TEST(TensorParallel, EqualsOneProcessWithTheSequenceCutToo) {
  for (const std::string model : {"gpt", "llama", "bert"}) {
    SCOPED_TRACE(model);
    const Workload workload = small_model(model, 2, true);
    expect_equal(alone(model, 4), train(workload, "zb-h1", 2, 4));
  }
}

// Two all-reduces per layer and direction, on the tensor lane, with the bytes of an activation: 2 x 16 tokens x 32 features x 4
// B.
TEST(TensorParallel, SumsStandOnTheTensorLane) {
  const Workload workload = small_model("gpt", 2);
  const Trained run = train(workload, "gpipe", 1, 1);
  for (const auto& spans : run.spans) {
    int forward = 0, backward = 0;
    for (const Span& span : spans) {
      if (span.lane != Lane::Tensor) continue;
      EXPECT_EQ(span.label, "all_reduce");
      EXPECT_LE(span.start, span.end);
      if (span.bytes.base() != 2 * 16 * 32 * 4) continue;
      ++(span.action.kind == ActionKind::F ? forward : backward);
    }
    EXPECT_EQ(forward, 4 * 2 + 1) << "and the embedding's";
    EXPECT_EQ(backward, 4 * 2 + 1) << "and the head's";
  }
}

TEST(Segments, LieBetweenTheCollectives) {
  const Workload whole = small_model("gpt"), cut = small_model("gpt", 2);
  const auto parts = [](const Workload& workload) {
    const StageLayout layout = make_stage_layout(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 1));
    return cut_at_collectives(*workload.graph, layout.stages[0]);
  };
  EXPECT_EQ(parts(whole).size(), 1u);
  // Embedding, sum; per half layer: norm, copy, products, sum; final norm, copy, head, loss.
  const std::vector<StagePart> found = parts(cut);
  EXPECT_EQ(found.size(), 2u + 8 * 4 + 4);
  int at = 0;
  for (const StagePart& part : found) {
    EXPECT_EQ(part.first_operator, at);
    at = part.end_operator;
    EXPECT_EQ(part.communicates, cut.graph->operators[part.first_operator].target.find("panpipe::") == 0);
  }
  EXPECT_EQ(at, static_cast<int>(cut.graph->operators.size()));
}

TEST(Weave, TakesWhatIsLeastDone) {
  EXPECT_EQ(woven({3, 3}), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(woven({4, 2}), (std::vector<int>{0, 1, 0, 0, 1, 0}));  // shares 0/4 0/2 | 1/4 < 1/2 | 2/4 = 1/2: the first
  EXPECT_EQ(woven({2}), (std::vector<int>{0, 0}));
  EXPECT_EQ(woven({0, 2}), (std::vector<int>{1, 1}));
  EXPECT_EQ(woven({}), std::vector<int>{});
}

// A fused matrix of 3 blocks of 4 rows over 2 ranks: rank 1 has the second half of each block.
TEST(Shards, CutInsideBlocksAndBack) {
  Tensor parameter;
  parameter.shape = {6, 2};
  parameter.full_shape = {12, 2};
  parameter.shard_dimension = 0;
  parameter.fused_matrices = 3;
  const at::Tensor whole = at::arange(24, at::kFloat).reshape({12, 2});
  const at::Tensor second = shard_of(parameter, whole, 1, {.tensor = 2});
  EXPECT_EQ(second.select(1, 0).to(at::kLong).equal(at::tensor({4, 6, 12, 14, 20, 22}, at::kLong)), true);
  EXPECT_TRUE(whole_of(parameter, {shard_of(parameter, whole, 0, {.tensor = 2}), second}).equal(whole));
}

// Two key-value heads over four ranks: ranks 0 and 1 hold the first, and their gradients add up.
TEST(Shards, AreSharedWhereThereAreFewerThanRanks) {
  Tensor parameter;
  parameter.shape = {1};
  parameter.full_shape = {2};
  parameter.shard_dimension = 0;
  parameter.shard_replicas = 2;
  const Degrees four{.tensor = 4};
  EXPECT_EQ(first_holders(parameter, four), (std::vector<int>{0, 2}));
  EXPECT_EQ(gradient_peers(parameter, 3, four), (std::vector<int>{2, 3}));
  EXPECT_EQ(shard_of(parameter, at::arange(2, at::kFloat), 3, four).item<float>(), 1);
  Tensor norm;
  norm.shape = {4};
  EXPECT_EQ(gradient_peers(norm, 3, four), std::vector<int>{3});
  norm.gradient_partial = true;
  EXPECT_EQ(gradient_peers(norm, 3, four), (std::vector<int>{0, 1, 2, 3}));
}

// A vocabulary of 5 over two ranks of 3 columns (one is padding), against LibTorch's on the whole.
TEST(VocabularyLoss, EqualsTheLossOfTheWhole) {
  const at::Tensor whole = at::sin(at::arange(20, at::kFloat)).reshape({4, 5}).mul(3).requires_grad_(true);
  const at::Tensor labels = at::tensor({0, 4, -100, 2}, at::kLong);
  const at::Tensor loss = at::cross_entropy_loss(whole, labels);
  loss.backward();
  std::vector<VocabularyPart> parts;
  at::Tensor table;
  for (int shard = 0; shard < 2; ++shard) {
    VocabularyPart part;
    part.first = 3 * shard;
    part.columns = shard == 0 ? 3 : 2;
    part.labels = labels;
    part.logits = at::full({4, 3}, 99.0);
    part.logits.narrow(1, 0, part.columns).copy_(whole.detach().narrow(1, part.first, part.columns));
    const at::Tensor mine = vocabulary_statistics(part, shard, 2);
    table = table.defined() ? table.add(mine) : mine;
    parts.push_back(part);
  }
  std::vector<at::Tensor> gradients;
  for (const VocabularyPart& part : parts) {
    const VocabularyLoss found = vocabulary_loss(part, table);
    EXPECT_NEAR(found.loss.item<double>(), loss.item<double>(), 1e-6);
    gradients.push_back(vocabulary_gradient(part, found, at::ones({})));
  }
  const at::Tensor joined = at::cat({gradients[0], gradients[1].narrow(1, 0, 2)}, 1);
  EXPECT_LT((joined - whole.grad()).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(gradients[1].select(1, 2).abs().max().item<double>(), 0) << "padding learns nothing";
}

}  // namespace
}  // namespace panpipe::exec
