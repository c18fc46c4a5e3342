// Optimizers, gradients over replicas and tied parameters, clipping, loss scaling: equal to one process for any placement.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/learning_rate.hpp"
#include "exec/engine/training/loss_scaler.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/training/trainer.hpp"
#include "tests/exec/step_on_threads.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

// Four microbatches in all, on any ranks. SGD: parameters then differ by no more than gradients do. The embedding is
// tied to the head, which stands on another rank whenever the pipeline has more than one.
TEST(Training, EveryMeshEqualsOneProcess) {
  const std::string sgd = "optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9, weight_decay: 0.01}\n";
  const Trained one = train(small_gpt(1, 1, 4, sgd), 3);
  ASSERT_EQ(one.losses.size(), 3u);
  EXPECT_LT(one.losses[2], one.losses[0] + 0.5);
  EXPECT_TRUE(one.gradients.count("lm_head.weight")) << "a tied parameter stands under each of its names";
  EXPECT_TRUE(at::equal(one.gradients.at("lm_head.weight"), one.gradients.at("transformer.wte.weight")));
  for (const auto& [pipeline, data] : {std::pair(2, 1), {1, 2}, {2, 2}, {4, 1}, {1, 4}}) {
    SCOPED_TRACE(fmt::format("pipeline {} x data {}", pipeline, data));
    expect_equal(train(small_gpt(pipeline, data, 4 / data, sgd), 3), one);
  }
  SCOPED_TRACE("2 x 2, zb-h1");
  expect_equal(train(small_gpt(2, 2, 2, sgd + "schedule: zb-h1\n"), 3), one);
}

// One stage holds the table twice, as embedding and as head. Blocks that run again cut it into segments with a backward each: the
// replicas' sum must wait for the embedding's part, which comes after the head's.
TEST(Training, TiedTablesLearnAroundBlocksThatRunAgain) {
  const std::string sgd = "optimizer: {name: sgd, learning_rate: 0.1}\n";
  const Trained one = train(small_gpt(1, 1, 4, sgd), 2);
  for (const std::string scope : {"{every: 2}", "{first: 1}", "{chunk: 2}"})
    for (const std::string zero : {"zero: 0}", "zero: 1}"}) {
      SCOPED_TRACE(scope + " " + zero);
      std::string text = small_gpt(1, 2, 2, sgd + "recompute: " + scope + "\n");
      expect_equal(train(text.replace(text.find("data: 2}"), 8, "data: 2, " + zero), 2), one);
    }
}

TEST(Training, ReductionsStandOnTheDataLane) {
  const Trained mesh = train(small_gpt(2, 2, 2, "optimizer: sgd\n"), 2);
  int reductions = 0, updates = 0;
  for (const Span& span : mesh.timeline.spans) {
    if (span.action.kind == ActionKind::ReduceGrad) {
      ++reductions;
      EXPECT_EQ(span.lane, Lane::Data);
      EXPECT_EQ(span.label, "all_reduce");
      EXPECT_GT(span.bytes.base(), 0);
      EXPECT_LE(span.start, span.end);
    }
    updates += span.action.kind == ActionKind::Opt;
  }
  EXPECT_GE(reductions, 8) << "on each rank its own bucket, and the tied embedding's";
  for (int device = 0; device < 4; ++device) {
    // The bucket goes out from inside the last backward; only the tied embedding's waits for the end.
    Duration last_backward{0}, first_reduction{1e30};
    for (const Span& span : mesh.timeline.spans) {
      if (span.device != device) continue;
      if (span.action.kind == ActionKind::B) last_backward = std::max(last_backward, span.end);
      if (span.action.kind == ActionKind::ReduceGrad) first_reduction = std::min(first_reduction, span.start);
    }
    EXPECT_LT(first_reduction, last_backward) << "device " << device;
  }
  EXPECT_EQ(updates, 4);
}

TEST(Training, ZeroOneUpdatesAsWithoutIt) {
  const std::string adam = "optimizer: {name: adamw, learning_rate: 0.01}\n";
  const Trained whole = train(small_gpt(2, 2, 2, adam), 3);
  std::string scenario = small_gpt(2, 2, 2, adam);
  scenario.replace(scenario.find("data: 2}"), 8, "data: 2, zero: 1}");
  const Trained divided = train(scenario, 3);
  EXPECT_EQ(divided.losses, whole.losses);
  expect_bit_equal(divided.state, whole.state);
}

// sqrt(sum of squares) over all ranks, tied parameters and replicas once, is what one process finds.
TEST(Training, ClippingAcrossRanksIsClippingInOne) {
  const std::string clip = "optimizer: {name: sgd, learning_rate: 1.0}\ntraining: {clip_gradients: 0.05}\n";
  const Trained one = train(small_gpt(1, 1, 4, clip), 3);
  const Trained free = train(small_gpt(1, 1, 4, "optimizer: {name: sgd, learning_rate: 1.0}\n"), 3);
  EXPECT_GT(std::abs(one.losses[2] - free.losses[2]), 1e-3) << "the limit must matter";
  expect_equal(train(small_gpt(2, 2, 2, clip), 3), one);
  expect_equal(train(small_gpt(4, 1, 4, clip), 3), one);
}

TEST(Training, NoOptimizerTrainsNothing) {
  const Trained two = train(small_gpt(2, 1, 2, "optimizer: none\ndata: {synthetic: true}\n"), 2);
  const Trained four = train(small_gpt(2, 1, 2, "optimizer: none\n"), 4);
  expect_bit_equal(four.state, two.state);
  EXPECT_NEAR(four.losses[3], std::log(48.0), 0.5);
}

TEST(Training, WarmupStepsTrainButAreNotReported) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 2, "optimizer: {name: sgd, learning_rate: 0.1}\n"));
  const std::vector<double> all = run_threads(file, quiet(file, 4)).losses();
  RunRequest request = quiet(file, 2);
  request.warmup = 2;
  EXPECT_EQ(run_threads(file, request).losses(), std::vector<double>(all.begin() + 2, all.end()));
}

// Mixed precision keeps fp32 masters: the checkpoint holds them, and the loss follows fp32's.
TEST(Training, MixedPrecisionFollowsSinglePrecision) {
  const std::string sgd = "optimizer: {name: sgd, learning_rate: 0.1}\n";
  const Trained single = train(small_gpt(2, 1, 4, sgd), 3);
  for (const std::string precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    const Trained mixed = train(small_gpt(2, 1, 4, sgd + "precision: " + precision + "\n"), 3);
    ASSERT_EQ(mixed.losses.size(), 3u);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(mixed.losses[s], single.losses[s], 0.02);
    EXPECT_EQ(mixed.state.at("transformer.wte.weight").scalar_type(), at::kFloat);
    expect_close(mixed.gradients, single.gradients, 0.05);
    expect_close(train(small_gpt(2, 2, 2, sgd + "precision: " + precision + "\n"), 3).gradients, mixed.gradients, 0.02);
  }
  const Trained pure = train(small_gpt(2, 1, 4, sgd + "precision: bf16-pure\n"), 3);
  EXPECT_NEAR(pure.losses[0], single.losses[0], 0.02);
  EXPECT_EQ(pure.state.at("transformer.wte.weight").scalar_type(), at::kBFloat16);
}

// An fp32 graph computes its products in bf16; what crosses the cut keeps the graph's type, or the receiver would refuse it.
double autocast_loss(int pipeline, std::optional<at::ScalarType> autocast) {
  const Folder folder;
  const PreparedRun run(quiet(folder.write("s.yaml", small_gpt(pipeline, 1, 2)), 1));
  const auto ranks = step_on_threads(run.graph(), run.plan, run.layout, synthetic_data(run.graph(), 0), {.autocast = autocast});
  for (const RankStep& rank : ranks)
    for (const auto& [root, value] : rank.parameters->trained()) EXPECT_EQ(value.grad().scalar_type(), at::kFloat);
  return ranks.back().result.loss_sum / 2;
}

TEST(Training, SinglePrecisionGraphsAreCastOperatorByOperator) {
  const double whole = autocast_loss(1, {}), cast = autocast_loss(1, at::kBFloat16), cut = autocast_loss(2, at::kBFloat16);
  EXPECT_NE(cast, whole);
  EXPECT_NEAR(cast, whole, 0.02);
  EXPECT_NEAR(cut, cast, 0.005);
}

TEST(Training, RecomputeOfModulesThatTheModelLacksIsRefused) {
  const Folder folder;
  EXPECT_THAT(test::fault_of([&] {
                const PreparedRun run(quiet(folder.write("s.yaml", small_gpt(1, 1, 1, "recompute: {modules: [moe]}\n")), 1));
              }),
              HasSubstr("the model has no module 'moe'"));
}

TEST(Training, ModulesThatRunAgainLeaveLossesAsTheyAre) {
  const Folder folder;
  const auto losses = [&](const std::string& lines) { return losses_of(folder, small_gpt(2, 1, 2, lines), 3); };
  const std::vector<double> plain = losses(""), again = losses("recompute: {modules: [core_attn, layernorm, mlp]}\n");
  ASSERT_EQ(plain.size(), 3U);
  ASSERT_EQ(again.size(), 3U);
  for (std::size_t step = 0; step < plain.size(); ++step) EXPECT_NEAR(again[step], plain[step], 1e-6);
}

// Settings that only predictions support.
TEST(Training, FormatsThatTheExecutorLacksAreRefused) {
  const Folder folder;
  for (const auto& [lines, message] :
       {std::pair("precision: fp8\n", "the executor has no products in 8 or 4 bits (fp8)"),
        std::pair("precision: bf16\noptimizer: {name: adamw, states: 8bit}\n",
                  "the executor's optimizers keep moments and masters in fp32"),
        std::pair("optimizer: adam\noffload: {optimizer: cpu}\n",
                  "the executor keeps optimizer and parameters on the devices, or both on the host")}) {
    EXPECT_THAT(test::fault_of(
                    [&, lines = lines] { const PreparedRun run(quiet(folder.write("s.yaml", small_gpt(1, 1, 1, lines)), 1)); }),
                HasSubstr(message));
  }
}

// 2^30 overflows fp16 gradients at once: steps are skipped, each halving the scale, until it fits; after growth_interval good
// steps it doubles.
TEST(Training, OverflowSkipsTheStepOnEveryRank) {
  const auto steps = metrics_of(Folder(),
                                small_gpt(2, 2, 1,
                                          "optimizer: {name: sgd, learning_rate: 0.1}\nprecision: fp16\n"
                                          "training: {loss_scale: {initial: 1073741824, growth_interval: 3}}\n"),
                                30);
  ASSERT_EQ(steps.size(), 30u);
  EXPECT_TRUE(steps[0]["skipped"]);
  int good = 0, doubled = 0;
  for (std::size_t s = 0; s + 1 < steps.size(); ++s) {
    const double scale = steps[s]["loss_scale"], next = steps[s + 1]["loss_scale"];
    if (steps[s]["skipped"]) {
      EXPECT_EQ(next, scale / 2);
      good = 0;
    } else if (++good == 3) {
      EXPECT_EQ(next, scale * 2);
      ++doubled;
      good = 0;
    } else {
      EXPECT_EQ(next, scale);
    }
  }
  EXPECT_GE(doubled, 1);
}

TEST(Training, MetricsAreOneLineOfJsonPerStep) {
  const Folder folder;
  const std::string file =
      folder.write("s.yaml", small_gpt(2, 2, 2,
                                       "optimizer: {name: adamw, learning_rate: 0.01}\n"
                                       "training: {warmup_steps: 2, decay: linear, decay_steps: 6, clip_gradients: 1}\n"));
  RunRequest request = quiet(file, 3);
  request.warmup = 1;
  request.metrics = folder.file("metrics.jsonl");
  const Outcome outcome = run_threads(file, request);
  ASSERT_EQ(outcome.error(), "");
  const std::vector<nlohmann::json> steps = metrics_lines(request.metrics);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0]["step"], 1);
  EXPECT_EQ(steps[0]["warmup"], true);
  EXPECT_FALSE(steps[1].contains("warmup"));
  EXPECT_DOUBLE_EQ(steps[3]["loss"], outcome.losses()[2]);
  EXPECT_DOUBLE_EQ(steps[0]["learning_rate"], 0.005);
  EXPECT_DOUBLE_EQ(steps[1]["learning_rate"], 0.01);
  EXPECT_DOUBLE_EQ(steps[3]["learning_rate"], 0.01 * 0.75);
  EXPECT_GT(steps[3]["gradient_norm"], 0);
  EXPECT_GT(steps[3]["tokens_per_s"], 0);
  EXPECT_EQ(steps[3]["skipped"], false);
}

// The norm in the metrics is the norm of the dumped gradients, tied parameters once.
TEST(Training, NormIsThatOfTheGradients) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 2, 2, "optimizer: none\n"));
  RunRequest request = quiet(file, 1);
  request.metrics = folder.file("metrics.jsonl");
  request.dump_gradients = folder.file("g.safetensors");
  ASSERT_EQ(run_threads(file, request).error(), "");
  double squares = 0;
  for (const auto& [name, gradient] : tensors_of(request.dump_gradients))
    if (name != "lm_head.weight") squares += gradient.to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(metrics_lines(request.metrics).front()["gradient_norm"], std::sqrt(squares), 1e-6 * std::sqrt(squares));
}

TEST(Training, NonFiniteLossEndsTheRunInWords) {
  const Folder folder;
  const std::string file =
      folder.write("s.yaml", small_gpt(2, 1, 2, "optimizer: {name: sgd, learning_rate: 1e38}\nschedule: gpipe\n"));
  const Outcome outcome = run_threads(file, quiet(file, 5));
  ASSERT_EQ(outcome.errors.size(), 2u);
  EXPECT_EQ(outcome.errors[1], "step 2: the loss of microbatch 0 is nan (rank 1, replica 0)");
  EXPECT_THAT(outcome.errors[0], HasSubstr("step 2: the loss of microbatch 0 is nan"));
}

TEST(LearningRate, WarmsUpAndDecays) {
  OptimizerRequest optimizer;
  optimizer.learning_rate = 1;
  TrainingRequest training;
  EXPECT_EQ(learning_rate(optimizer, training, 0), 1);
  training.warmup_steps = 4;
  EXPECT_EQ(learning_rate(optimizer, training, 0), 0.25);
  EXPECT_EQ(learning_rate(optimizer, training, 3), 1);
  training.decay = TrainingRequest::Decay::Linear;
  training.decay_steps = 14;
  training.minimum_learning_rate = 0.1;
  EXPECT_EQ(learning_rate(optimizer, training, 4), 1);
  EXPECT_NEAR(learning_rate(optimizer, training, 9), 0.55, 1e-12);  // half-way between 1 and 0.1
  EXPECT_NEAR(learning_rate(optimizer, training, 100), 0.1, 1e-12);
  training.decay = TrainingRequest::Decay::Cosine;
  EXPECT_NEAR(learning_rate(optimizer, training, 9), 0.55, 1e-12);  // cos(pi/2) = 0
  EXPECT_NEAR(learning_rate(optimizer, training, 6), 0.1 + 0.45 * (1 + std::cos(M_PI / 5)), 1e-12);
  EXPECT_NEAR(learning_rate(optimizer, training, 14), 0.1, 1e-12);
}

TEST(LossScaler, IsDynamicForHalfPrecisionOnly) {
  EXPECT_TRUE(LossScaler({}, Precision::Fp16).dynamic());
  EXPECT_TRUE(LossScaler({}, Precision::Fp16Pure).dynamic());
  EXPECT_EQ(LossScaler({}, Precision::Fp16).scale(), 65536);
  for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Bf16, Precision::Bf16Pure}) {
    EXPECT_FALSE(LossScaler({}, precision).dynamic());
    EXPECT_EQ(LossScaler({}, precision).scale(), 1);
  }
  TrainingRequest fixed;
  fixed.loss_scale = TrainingRequest::LossScale::Fixed;
  fixed.initial_scale = 128;
  LossScaler scaler(fixed, Precision::Fp16);
  EXPECT_FALSE(scaler.dynamic());
  scaler.update(true, 0);
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, GivesUpBelowOne) {
  TrainingRequest training;
  training.initial_scale = 1.5;
  LossScaler scaler(training, Precision::Fp16);
  EXPECT_EQ(test::fault_of<NoAnswer>([&] { scaler.update(true, 7); }),
            "step 8: gradients overflow even at a loss scale of 1.5: the run has diverged");
}

}  // namespace
}  // namespace panpipe::exec
