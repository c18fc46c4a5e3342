// Sequences cut into slices compute what whole ones compute: every pass of a slice reads the keys and values of the slices before
// it, and gives them their gradients.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/slices/attention_partner.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/worker.hpp"
#include "tests/exec/pipeline_equality.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

Schedule sliced(int ranks, int microbatches, int splits) {
  return make_schedule("seq-1f1b", ranks, microbatches, {{"sequence_splits", std::to_string(splits)}});
}

Trained in_slices(const std::string& model, const Schedule& schedule, int data = 1, Recompute recompute = Recompute::None) {
  const Workload workload = small_model(model);
  const SliceGraph slices = small_slices(model, schedule.splits);
  return train(*workload.graph, plan_over(*workload.graph, schedule, data, recompute), &slices);
}

TEST(Slices, EqualWholeSequencesOverRanksSplitsAndReplicas) {
  for (const std::string model : {"gpt", "llama"})
    for (const int ranks : {1, 2, 4})
      for (const int splits : {2, 4})
        for (const int data : {1, 2}) {
          SCOPED_TRACE(fmt::format("{}: {} ranks, {} slices, {} replicas", model, ranks, splits, data));
          expect_equal(alone(model, 8), in_slices(model, sliced(ranks, 8 / data, splits), data));
        }
}

TEST(Slices, OfOneTokenEach) { expect_equal(alone("gpt", 8), in_slices("gpt", sliced(2, 8, 16))); }

TEST(Slices, OverTensorParallelRanksWithTheSequenceCutToo) {
  for (const std::string model : {"gpt", "llama"})
    for (const bool sequence_parallel : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", model, sequence_parallel ? ", each rank its part of a slice" : ""));
      const Workload workload = small_model(model, 2, sequence_parallel);
      const SliceGraph slices = small_slices(model, 4, 2, sequence_parallel);
      expect_equal(alone(model, 8), train(*workload.graph, plan_over(*workload.graph, sliced(2, 8, 4)), &slices));
    }
}

// The mean over a microbatch's labels is not the mean of its slices' means where labels do not count.
TEST(Slices, WeighTheirLossByTheLabelsThatCount) {
  for (const int tensor : {1, 2}) {
    const Workload whole = small_model("gpt"), workload = small_model("gpt", tensor);
    const Trained one = alone(whole, 4, true);
    EXPECT_GT(std::abs(one.loss - alone("gpt", 8).loss), 1e-4) << "other labels, another loss";
    const SliceGraph slices = small_slices("gpt", 4, tensor);
    expect_equal(one, train(*workload.graph, plan_over(*workload.graph, sliced(2, 4, 4)), &slices, true));
  }
}

// B in its halves, W at once or after the next backward: never before that of the slice behind.
Schedule with_halves(Schedule schedule, bool late) {
  for (std::vector<Action>& row : schedule.order) {
    std::vector<Action> longer, waiting;
    for (Action action : row) {
      if (action.kind != ActionKind::B) {
        longer.push_back(action);
        continue;
      }
      action.kind = ActionKind::I;
      longer.push_back(action);
      longer.insert(longer.end(), waiting.begin(), waiting.end());
      waiting.clear();
      action.kind = ActionKind::W;
      (late ? waiting : longer).push_back(action);
    }
    longer.insert(longer.end(), waiting.begin(), waiting.end());
    row = std::move(longer);
  }
  return schedule;
}

TEST(Slices, RunBackwardsInHalves) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    expect_equal(alone("gpt", 8), in_slices("gpt", with_halves(sliced(2, 8, 2), late)));
  }
}

Schedule with_copies(Schedule schedule) {
  for (std::vector<Action>& row : schedule.order) {
    std::vector<Action> longer;
    for (const Action& action : row) {
      Action copy = action;
      copy.kind = action.kind == ActionKind::B ? ActionKind::Reload : ActionKind::Offload;
      if (action.kind == ActionKind::B) longer.push_back(copy);
      longer.push_back(action);
      if (action.kind == ActionKind::F) longer.push_back(copy);
    }
    row = std::move(longer);
  }
  return schedule;
}

TEST(Slices, AreRecomputedAndOffloadedLikeMicrobatches) {
  expect_equal(alone("gpt", 8), in_slices("gpt", sliced(2, 8, 4), 1, Recompute::Full));
  expect_equal(alone("gpt", 8), in_slices("gpt", sliced(2, 8, 4), 1, Recompute::Selective));
  expect_equal(alone("llama", 8), in_slices("llama", with_copies(sliced(2, 8, 2))));
}

Schedule slim(int ranks, int microbatches, int splits, int chunks) {
  return make_schedule("slimpipe", ranks, microbatches,
                       {{"sequence_splits", std::to_string(splits)}, {"stages_per_rank", std::to_string(chunks)}});
}

// Interleaved slices, each rank on its own or with shared attention; eight slices of two tokens give pairs that move one, two and
// three slices of keys.
TEST(Slices, OfSlimPipeEqualWholeSequencesWithAndWithoutExchange) {
  for (const std::string model : {"gpt", "llama"})
    for (const bool exchange : {false, true})
      for (const auto& [ranks, splits, chunks] : {std::tuple{2, 4, 1}, {2, 4, 2}, {4, 8, 1}, {4, 4, 2}, {3, 8, 1}}) {
        SCOPED_TRACE(fmt::format("{}: {} ranks, {} slices, {} stages each, exchange {}", model, ranks, splits, chunks, exchange));
        const Workload workload = small_model(model);
        const SliceGraph slices = small_slices(model, splits);
        Plan plan = plan_over(*workload.graph, slim(ranks, 8, splits, chunks));
        if (!exchange) plan.schedule.name = "the same order of another name";
        expect_equal(alone(model, 8), train(*workload.graph, plan, &slices));
      }
}

TEST(Slices, ShareAttentionOverShardsReplicasAndRecompute) {
  const Workload whole = small_model("gpt"), cut = small_model("gpt", 2);
  const SliceGraph slices = small_slices("gpt", 4), of_shards = small_slices("gpt", 4, 2);
  expect_equal(alone("gpt", 8), train(*cut.graph, plan_over(*cut.graph, slim(2, 8, 4, 2)), &of_shards));
  expect_equal(alone("gpt", 8), train(*whole.graph, plan_over(*whole.graph, slim(2, 4, 4, 2), 2), &slices));
  expect_equal(alone("gpt", 8), train(*whole.graph, plan_over(*whole.graph, slim(2, 8, 4, 2), 1, Recompute::Full), &slices));
}

// Windows and shared key heads; a window of five tokens sees little or nothing of the keys that move.
TEST(Slices, ShareAttentionOfWindowsAndGroups) {
  for (const char* type : {"mistral", "qwen3"}) {
    SCOPED_TRACE(type);
    const Workload workload = small_config_model(type);
    const Trained one = alone(workload, 4);
    const SliceGraph slices = slice_graph(small_config_request(type), workload.shape, *workload.graph, 8);
    expect_equal(one, train(*workload.graph, plan_over(*workload.graph, slim(4, 4, 8, 1)), &slices));
  }
}

TEST(Slices, RefuseToShareWhatHasSinksOrDropout) {
  const Workload sinks = small_config_model("gpt_oss");
  EXPECT_THAT(test::diagnostic_of([&] { check_shares_attention(*sinks.graph); }).message,
              testing::HasSubstr("the executor does not share the attention of '"));
  WorkloadRequest request = small_request("gpt");
  request.dropout = 0.1;
  const Workload drops = make_workload(request, small_model("gpt").shape);
  EXPECT_THAT(test::diagnostic_of([&] { check_shares_attention(*drops.graph); }).message, testing::HasSubstr("it has dropout"));
  EXPECT_NO_THROW(check_shares_attention(*small_model("gpt").graph));
}

// The wait for a rank that has refused ends with its refusal, also inside an attention that both share.
TEST(Slices, ARefusalOfTheRankThatSharesAttentionIsPassedOn) {
  const SliceGraph slices = small_slices("gpt", 4);
  const Plan plan = plan_over(slices.graph, slim(2, 8, 4, 1));
  const StageLayout layout = make_stage_layout(slices.graph, plan, slices.cut);
  const SeededParameters parameters(slices.graph, layout, {0}, 7);
  const auto transports = make_local_transports(2);
  RankSite site{slices.graph, plan, layout, *transports[0]};
  const Workload whole = small_model("gpt");
  Worker worker(site, parameters, synthetic_data(*whole.graph, 7), {.exchange = exchange_of(plan.schedule, {})});
  transports[1]->refuse(InputError("the file is empty"));
  EXPECT_EQ(test::fault_of([&] { worker.step(0); }), "error: the file is empty");
}

std::string refused(const std::string& model, int splits) {
  return test::diagnostic_of([&] { small_slices(model, splits); }).message;
}

TEST(Slices, AreRefusedWhereTheyMakeNoSense) {
  EXPECT_EQ(refused("gpt", 3), "sequences of 16 tokens cannot be cut into 3 equal slices");
  EXPECT_EQ(refused("bert", 2),
            "bert cannot be cut into slices of the sequence: the attention of 'bert.encoder.layer.0.attention.self' also looks "
            "ahead, at slices that are not there yet");
  for (const std::string model : {"vit", "unet", "mllm"})
    EXPECT_THAT(refused(model, 2), testing::HasSubstr(model + " cannot be cut into slices of the sequence: the attention of '"));
  const Workload gpt = small_model("gpt");
  OperatorGraph mixes = *gpt.graph;
  for (Operator& op : mixes.operators)
    if (op.target == "aten::gelu") op.target = "aten::cumsum";
  EXPECT_EQ(
      test::diagnostic_of([&] { slice_graph(small_request("gpt"), gpt.shape, mixes, 2); }).message,
      "gpt cannot be cut into slices of the sequence: what aten::cumsum of 'transformer.h.0.mlp.act' makes of a token depends "
      "on other tokens in a way that has no rule for parts of a sequence");
  WorkloadRequest exported;
  exported.pt2_file = "gpt.pt2";
  EXPECT_THROW(slice_graph(exported, {}, *gpt.graph, 2), InputError);
  Schedule schedule = with_halves(sliced(2, 2, 2), false);
  EXPECT_NO_THROW(check_slice_order(schedule));
  for (Action& action : schedule.order[0])
    if (action.kind == ActionKind::W) action.split = static_cast<std::int8_t>(1 - action.split);
  EXPECT_EQ(test::diagnostic_of([&] { check_slice_order(schedule); }).message,
            "0W0.0 comes before the W of the slice behind it: slices are run backwards from the last to the first, their W too");
}

}  // namespace
}  // namespace panpipe::exec
