// Training over pipeline x data x tensor, and over two forward paths: equal to one process in losses, gradients, parameters and
// optimizer state, also when resumed on another mesh.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "costmodel/prediction/prediction.hpp"
#include "exec/engine/run/run.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

// Eight microbatches over all replicas. A vocabulary that does not divide by two is padded.
std::string model_on(Mesh mesh, const std::string& extra, const std::string& model = "gpt", const std::string& more = "") {
  mesh.more = more;
  return scenario_on(mesh, fmt::format("model: {}, layers: 2, hidden: 16, heads: 2, sequence: 8, vocabulary: 47", model),
                     fmt::format("{{micro: 2, microbatches: {}}}", 8 / mesh.data), extra);
}

TEST(TrainingMesh, TensorParallelTrainingEqualsOneProcess) {
  const Trained one = train(model_on({}, kSgd));
  ASSERT_EQ(one.losses.size(), 3u);
  EXPECT_EQ(one.gradients.at("transformer.wte.weight").size(0), 47);
  for (const Mesh& mesh : {Mesh{1, 1, 2}, Mesh{2, 1, 2}, Mesh{2, 2, 2}}) {
    SCOPED_TRACE(mesh.text());
    expect_equal(train(model_on(mesh, kSgd)), one);
  }
  SCOPED_TRACE("sequence too");
  expect_equal(train(model_on({2, 1, 2}, kSgd + "schedule: zb-h1\n", "gpt", ", sequence_parallel: true")), one);
}

// One key-value head on two ranks each: their gradients add up.
TEST(TrainingMesh, SharedKeyValueHeadsLearnFromAllTheirQueries) {
  const std::string heads = ", heads: 4, kv_heads: 2, ffn: 32";
  const auto llama = [&](const Mesh& mesh) {
    std::string text = model_on(mesh, kSgd, "llama");
    return text.replace(text.find(", heads: 2"), 10, heads);
  };
  expect_equal(train(llama({1, 1, 4})), train(llama({})));
}

TEST(TrainingMesh, WovenStpTrainingEqualsOneProcess) {
  expect_equal(train(model_on({2, 1, 2}, kSgd + "schedule: stp\n")), train(model_on({}, kSgd)));
}

// Every stage lives on two ranks: both apply the sum of the two copies' gradients.
TEST(TrainingMesh, TwoForwardPathsTrainOneModel) {
  const Trained one = train(model_on({}, kSgd));
  expect_equal(train(model_on({2, 1, 1}, kSgd + "schedule: dualpipe\n")), one);
  expect_equal(train(model_on({2, 2, 1}, kSgd + "schedule: chimera\n")), one);
  expect_equal(train(model_on({2, 1, 2}, kSgd + "schedule: dualpipe\n")), one);
}

TEST(TrainingMesh, NormsClippingAndZeroOneCountEachParameterOnce) {
  const std::string clip = "optimizer: {name: adamw, learning_rate: 0.01}\ntraining: {clip_gradients: 0.05}\n";
  const Folder folder;
  const auto norm_of = [&](const std::string& scenario) {
    return metrics_of(folder, scenario, 1).front()["gradient_norm"].get<double>();
  };
  const double norm = norm_of(model_on({}, clip));
  for (const auto& [mesh, extra, more] : {std::tuple(Mesh{2, 1, 2}, clip, ""),
                                          {Mesh{1, 2, 2}, clip, ", zero: 1"},
                                          {Mesh{2, 1, 1}, clip + "schedule: chimera\n", ""},
                                          {Mesh{2, 1, 2}, clip, ", sequence_parallel: true"}}) {
    SCOPED_TRACE(mesh.text() + more);
    EXPECT_NEAR(norm_of(model_on(mesh, extra, "gpt", more)), norm, 1e-5 * norm);
  }
  expect_equal(train(model_on({1, 2, 2}, kSgd, "gpt", ", zero: 1")), train(model_on({}, kSgd)));
}

// A checkpoint holds whole tensors, each once: any mesh goes on from it.
TEST(TrainingMesh, CheckpointsAreWholeOnEveryMesh) {
  const Trained one = train(model_on({}, kSgd), 4);
  const Mesh meshes[] = {{2, 1, 2}, {1, 2, 1}, {1, 1, 2}, {}};
  for (std::size_t i = 0; i + 1 < std::size(meshes); ++i) {
    expect_close(resumed(model_on(meshes[i], kSgd), model_on(meshes[i + 1], kSgd)), one.state, 2e-5);
  }
}

// The devices of a tensor-parallel group have spans of their own, and each reports its waiting.
TEST(TrainingMesh, TimelinesReportEveryDevice) {
  const Trained run = train(model_on({2, 1, 2}, kSgd + "schedule: stp\n"), 1);
  ASSERT_EQ(run.timeline.devices.size(), 4u);
  const int ranks[] = {0, 0, 1, 1};
  for (int device = 0; device < 4; ++device) {
    EXPECT_EQ(run.timeline.devices[device].rank, ranks[device]);
    int passes = 0, sums = 0;
    for (const Span& span : run.timeline.spans) {
      if (span.device != device) continue;
      sums += span.lane == Lane::Tensor;
      if (span.lane != Lane::Compute || span.action.kind == ActionKind::Opt) continue;
      ++passes;
      EXPECT_GE(span.waiting, Duration(0));
      EXPECT_LE(span.waiting, span.end - span.start);
    }
    EXPECT_GE(passes, 2 * 8 * 2) << "two stages, eight microbatches, F and a backward each";
    EXPECT_GE(sums, 8 * 2 * 2) << "two halves of layers at least, one sum forwards and one backwards each";
  }
}

TEST(TrainingMesh, SharedSequencesTrainAsWholeOnes) {
  const Trained one = train(model_on({}, kSgd));
  for (const auto& [mesh, more] : {std::pair(Mesh{1, 1, 1, 2}, ""),
                                   {Mesh{2, 1, 1, 2}, ", context_exchange: all-gather"},
                                   {Mesh{1, 1, 2, 2}, ", sequence_parallel: true"},
                                   {Mesh{1, 2, 1, 2}, ", zero: 1"},
                                   {Mesh{2, 1, 1, 2}, ", zero: 1, context_exchange: ulysses"}}) {
    SCOPED_TRACE(mesh.text() + more);
    expect_equal(train(model_on(mesh, kSgd, "gpt", more)), one);
  }
}

// ZeRO 1 divides the optimizer's state over data x context; tables of positions are kept whole.
TEST(TrainingMesh, CheckpointsOfSharedSequencesAreThoseOfWholeOnes) {
  const Trained one = train(model_on({}, kSgd), 4);
  for (const bool shared_first : {true, false}) {
    const std::string shared = model_on({1, 1, 1, 2}, kSgd, "gpt", ", zero: 1"), whole = model_on({}, kSgd);
    expect_close(shared_first ? resumed(shared, whole) : resumed(whole, shared), one.state, 2e-5);
  }
}

// Measured collectives have the names of predicted ones, and are as many.
TEST(TrainingMesh, ExchangesOverTheContextStandWhereTheyArePredicted) {
  for (const std::string exchange : {"ring", "all-gather", "ulysses"}) {
    SCOPED_TRACE(exchange);
    const std::string scenario = model_on({2, 2, 1, 2}, kSgd, "gpt", ", context_exchange: " + exchange);
    const Folder folder;
    std::string with_rates = scenario;
    const auto cluster = with_rates.find("cluster:");
    with_rates.replace(cluster, with_rates.find('\n', cluster) - cluster,
                       "cluster: {file: " PANPIPE_SOURCE "/scenarios/clusters/dgx-a100-80g.yaml, nodes: 1}");
    const Experiment experiment(load_scenario(folder.write("s.yaml", with_rates)));
    const auto counted = [](const Timeline& timeline) {
      std::map<std::tuple<std::string, int, bool>, int> counts;  // label, stage, forward; on the first device
      for (const Span& span : timeline.spans)
        if (span.device == 0 && span.lane == Lane::Tensor)
          ++counts[{span.label, span.action.stage, span.action.kind == ActionKind::F}];
      return counts;
    };
    const Plan plan = experiment.plan("");
    const auto predicted = counted(predict(experiment, plan).timeline);
    EXPECT_FALSE(predicted.empty());
    EXPECT_EQ(counted(train(scenario, 1).timeline), predicted);
  }
}

TEST(TrainingMesh, WhatCannotShareSequencesIsRefusedInWords) {
  const auto refused = [](const std::string& model) {
    const Folder folder;
    return error_of_step(folder, model_on({1, 1, 1, 2}, "", model));
  };
  EXPECT_THAT(refused("bert"),
              HasSubstr("the loss of bert is not one cross entropy over the tokens: ranks with parts of a sequence cannot "
                        "sum it; run with parallel.context 1"));
}

const std::string kSlices = "schedule: {name: seq-1f1b, sequence_splits: 4}\n";

TEST(TrainingMesh, SlicedSequencesTrainAsWholeOnes) {
  const Trained one = train(model_on({}, kSgd));
  for (const Mesh& mesh : {Mesh{2, 1, 1}, Mesh{2, 2, 1}, Mesh{2, 1, 2}}) {
    SCOPED_TRACE(mesh.text());
    expect_equal(train(model_on(mesh, kSgd + kSlices)), one);
  }
  const Trained sliced = train(model_on({2, 1, 1}, kSgd + kSlices), 1);
  int passes = 0, messages = 0;
  for (const Span& span : sliced.timeline.spans) {
    if (span.action.kind == ActionKind::Opt || span.lane == Lane::Data) continue;
    ASSERT_TRUE(span.action.split >= 0 && span.action.split < 4) << to_text(span.action);
    passes += span.lane == Lane::Compute;
    messages += span.lane == Lane::Send;
  }
  EXPECT_EQ(passes, 2 * 2 * 8 * 4) << "F and B of two stages, eight microbatches, four slices";
  EXPECT_EQ(messages, 2 * 8 * 4) << "an activation and a gradient of each slice";
}

// The tables of positions are kept whole: a checkpoint does not depend on slices.
TEST(TrainingMesh, CheckpointsOfSlicedSequencesAreThoseOfWholeOnes) {
  const Trained one = train(model_on({}, kSgd), 4);
  expect_close(resumed(model_on({2, 1, 1}, kSgd + kSlices), model_on({1, 2, 1}, kSgd)), one.state, 2e-5);
}

TEST(TrainingMesh, SequencesThatCannotBeSlicedAreRefusedInWords) {
  const auto refused = [](const std::string& scenario) {
    const Folder folder;
    return error_of_step(folder, scenario);
  };
  EXPECT_THAT(refused(model_on({2, 1, 1}, "schedule: {name: seq-1f1b, sequence_splits: 3}\n")),
              HasSubstr("sequences of 8 tokens cannot be cut into 3 equal slices"));
  EXPECT_THAT(refused(model_on({2, 1, 1}, kSlices, "bert")),
              HasSubstr("bert cannot be cut into slices of the sequence: the attention of "
                        "'bert.encoder.layer.0.attention.self' also looks ahead, at slices that are not there yet"));
}

}  // namespace
}  // namespace panpipe::exec
