// Which pieces of evidence count for a step, against closed forms of normal distributions.
#include "costmodel/prediction/given_evidence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/index.hpp"

namespace panpipe {
namespace {

// One cell: no factors, one scatter, nothing missing.
UncertaintyPrior plain_prior() {
  UncertaintyPrior prior;
  prior.spread[at(Direction::Products)] = 0.2;
  prior.spread[at(Direction::Host)] = 0.4;
  prior.block_spread = 0.03;
  prior.scale = {{1, 1}};
  prior.scatter = {{0.05, 1}};
  for (MissingWeights& weights : prior.missing) weights = {1, 0, 0, 0};
  return prior;
}

ComparedStep step_of(double products, double host, double off, const std::string& parallel = "data") {
  ComparedStep step;
  step.sensitivity[at(Direction::Products)] = products;
  step.sensitivity[at(Direction::Host)] = host;
  step.parallel = parallel;
  step.machine = "A100-80G-SXM";
  step.wiring = "switch";
  step.framework = "megatron-core";
  step.off = off;
  return step;
}

GivenPiece log_of(const std::string& file, const ComparedStep& step) {
  GivenPiece piece;
  piece.file = file;
  piece.kind = "log";
  piece.machine = step.machine;
  piece.trainer = step.framework;
  piece.wiring = step.wiring;
  piece.observations = {step};
  return piece;
}

StepDistribution posterior_of(const GivenEvidence& given, const ComparedStep& step) {
  static const UncertaintyPrior prior = plain_prior();
  return StepPosterior(prior, weigh(given, prior, step).counting, step.of).distribution(step);
}

// A shipped preset and those whose names begin with it are a family, so that a fork bears on what it was forked from. A preset of
// one's own is not of LLM Foundry because its name begins with the same word.
TEST(GivenEvidence, AFamilyIsAPresetAndThoseNamedAfterIt) {
  EXPECT_EQ(trainer_family("megatron-core"), "megatron");
  EXPECT_EQ(trainer_family("megatron-zb"), "megatron");
  EXPECT_EQ(trainer_family("eager-sdpa-chunked-loss"), "eager");
  EXPECT_EQ(trainer_family("torch-compile-2.0"), "torch-compile");
  EXPECT_EQ(trainer_family("llm-foundry"), "llm-foundry");
  EXPECT_NE(trainer_family("llm-mine"), trainer_family("llm-foundry"));
}

// A log of products alone, 0.3 off. Its variance is 0.2^2 + 0.03^2 + 0.05^2 = 0.0434; a step of products with another split
// shares 0.04 of it: mean 0.3 x 0.04 / 0.0434, variance 0.0434 - 0.04^2 / 0.0434.
TEST(GivenEvidence, OnePieceMovesTheStepByWhatTheyShare) {
  const GivenEvidence given{{log_of("a.log", step_of(1, 0, 0.3, "tensor"))}};
  const StepDistribution moved = posterior_of(given, step_of(1, 0, 0));
  EXPECT_NEAR(moved.quantile(0.5), 0.3 * 0.04 / 0.0434, 1e-6);
  EXPECT_NEAR(moved.variance(), 0.0434 - 0.0016 / 0.0434, 1e-12);
  // Of the same split it shares the block too.
  EXPECT_NEAR(posterior_of(given, step_of(1, 0, 0, "tensor")).quantile(0.5), 0.3 * 0.0409 / 0.0434, 1e-6);
  const WeighedEvidence weighed = weigh(given, plain_prior(), step_of(1, 0, 0));
  ASSERT_EQ(weighed.pieces.size(), 1U);
  // 1.2816 standard deviations on either side, of ln.
  EXPECT_NEAR(weighed.pieces[0].half_width_before, std::expm1(1.28155 * std::sqrt(0.0434)), 1e-4);
  EXPECT_NEAR(weighed.pieces[0].half_width_after, std::expm1(1.28155 * std::sqrt(0.0434 - 0.0016 / 0.0434)), 1e-4);
}

// Host times measured with a scatter of 0.02, 0.5 off: mean 0.5 x 0.16 / (0.16 + 0.0004), and no block.
TEST(GivenEvidence, AMeasurementThatIsNoStepHasItsOwnScatter) {
  ComparedStep launches;
  launches.sensitivity[at(Direction::Host)] = 1;
  launches.off = 0.5;
  launches.scatter = 0.02;
  GivenPiece piece;
  piece.file = "device.yaml";
  piece.kind = "device";
  piece.machine = "A100-80G-SXM";
  piece.observations = {launches};
  const StepDistribution moved = posterior_of({{piece}}, step_of(0, 1, 0));
  EXPECT_NEAR(moved.quantile(0.5), 0.5 * 0.16 / 0.1604, 1e-6);
  EXPECT_NEAR(moved.variance(), 0.16 + 0.0034 - 0.16 * 0.16 / 0.1604, 1e-12);
  // A step of products learns nothing of it.
  EXPECT_NEAR(posterior_of({{piece}}, step_of(1, 0, 0)).variance(), 0.0434, 1e-12);
}

// Whether a step misses time, and how steps scatter, stays open.
TEST(GivenEvidence, AMeasurementThatIsNoStepLeavesMissingTimeAndScatter) {
  UncertaintyPrior prior = plain_prior();
  prior.scatter = {{0.02, 0.5}, {0.2, 0.5}};
  for (MissingWeights& weights : prior.missing) weights = {0.5, 0, 0, 0.5};
  ComparedStep products;
  products.sensitivity[at(Direction::Products)] = 1;
  products.off = 0.1;
  products.scatter = 0.01;
  const ComparedStep step = step_of(0, 1, 0);
  const StepDistribution before = StepPosterior(prior, {}, step.of).distribution(step);
  const StepDistribution after = StepPosterior(prior, {products}, step.of).distribution(step);
  for (const double share : {0.05, 0.5, 0.95}) EXPECT_NEAR(before.quantile(share), after.quantile(share), 1e-9);
}

TEST(GivenEvidence, PiecesOfAnotherMachineTrainerOrWiringAreLeftOut) {
  const ComparedStep step = step_of(1, 0, 0);
  ComparedStep other = step_of(1, 0, 0.3);
  other.machine = "A100-40G-SXM";
  ComparedStep trainer = step_of(1, 0, 0.3);
  trainer.framework = "torchtitan";
  ComparedStep wiring = step_of(1, 0, 0.3);
  wiring.wiring = "host";
  const GivenEvidence given{{log_of("a.log", other), log_of("b.log", trainer), log_of("c.log", wiring)}};
  const WeighedEvidence weighed = weigh(given, plain_prior(), step);
  EXPECT_TRUE(weighed.counting.empty());
  EXPECT_EQ(weighed.pieces[0].left_out, "it was measured on A100-40G-SXM, and this step is on A100-80G-SXM");
  EXPECT_EQ(weighed.pieces[1].left_out,
            "it was measured with torchtitan, and this step is of megatron-core; 'framework: {name: torchtitan}' predicts it as "
            "torchtitan");
  EXPECT_EQ(weighed.pieces[2].left_out, "its devices were joined by the host's memory, and these are by an NVLink switch");
  for (const EvidencePiece& piece : weighed.pieces) EXPECT_EQ(piece.half_width_before, piece.half_width_after);
  const StepDistribution without = posterior_of({}, step), with = posterior_of(given, step);
  EXPECT_EQ(without.quantile(0.1), with.quantile(0.1));
  // A step counts for one of a like trainer, and one without links for all wirings.
  ComparedStep older = step_of(1, 0, 0.1);
  older.framework = "megatron";
  older.wiring = "";
  EXPECT_EQ(weigh({{log_of("d.log", older)}}, plain_prior(), step).counting.size(), 1U);
}

TEST(GivenEvidence, AWrongLogAmongThreeIsLeftOut) {
  std::vector<GivenPiece> pieces = {log_of("a.log", step_of(0.9, 0.1, 0.10)),
                                    log_of("wrong.log", step_of(0.8, 0.2, 0.9, "tensor")),
                                    log_of("b.log", step_of(0.8, 0.2, 0.12, "tensor")), log_of("c.log", step_of(0.7, 0.3, 0.05))};
  const ComparedStep step = step_of(0.9, 0.1, 0);
  std::vector<GivenPiece> right = pieces;
  right.erase(right.begin() + 1);
  const StepDistribution expected = posterior_of({right}, step);
  std::sort(pieces.begin(), pieces.end(), [](const GivenPiece& a, const GivenPiece& b) { return a.file < b.file; });
  do {  // in any order
    const WeighedEvidence weighed = weigh({pieces}, plain_prior(), step);
    for (const EvidencePiece& piece : weighed.pieces)
      EXPECT_EQ(piece.left_out.empty(), piece.file != "wrong.log") << piece.file << ": " << piece.left_out;
    const StepDistribution moved = posterior_of({pieces}, step);
    for (const double share : {0.1, 0.5, 0.9}) EXPECT_EQ(moved.quantile(share), expected.quantile(share));
  } while (std::next_permutation(pieces.begin(), pieces.end(),
                                 [](const GivenPiece& a, const GivenPiece& b) { return a.file < b.file; }));
}

// Far out: the prior of one step of products has a standard deviation of 0.208, and 3.29 of these bound one in two thousand. Up
// to three times as long, ln 3 = 1.0986, is possible whatever the prior knows.
TEST(GivenEvidence, OnePieceAloneIsLeftOutOnlyFarOutside) {
  const ComparedStep step = step_of(1, 0, 0);
  const auto counts = [&](double off) {
    return weigh({{log_of("a.log", step_of(1, 0, off))}}, plain_prior(), step).pieces[0].left_out.empty();
  };
  EXPECT_TRUE(counts(-0.66));
  EXPECT_FALSE(counts(-0.71));
  EXPECT_TRUE(counts(1.09));
  EXPECT_FALSE(counts(1.11));
}

// Two that agree are judged one by one, too.
TEST(GivenEvidence, TwoPiecesFarOutsideAreLeftOutLikeOne) {
  const ComparedStep step = step_of(1, 0, 0);
  const std::vector<GivenPiece> wrong = {log_of("a.log", step_of(1, 0, 1.2)), log_of("b.log", step_of(1, 0, 1.21))};
  for (const EvidencePiece& piece : weigh({wrong}, plain_prior(), step).pieces) EXPECT_FALSE(piece.left_out.empty());
  const WeighedEvidence with_right = weigh({{wrong[0], log_of("right.log", step_of(1, 0, 0.1)), wrong[1]}}, plain_prior(), step);
  ASSERT_EQ(with_right.counting.size(), 1U);
  EXPECT_EQ(with_right.counting.front().off, 0.1);
}

TEST(GivenEvidence, EachConsistentPieceNarrows) {
  GivenEvidence given;
  for (int i = 0; i < 6; ++i) given.pieces.push_back(log_of("a.log", step_of(1 - 0.1 * i, 0.1 * i, 0.1)));
  const WeighedEvidence weighed = weigh(given, plain_prior(), step_of(0.5, 0.5, 0));
  for (const EvidencePiece& piece : weighed.pieces) EXPECT_LT(piece.half_width_after, piece.half_width_before);
}

TEST(GivenEvidence, TheRowThatContradictsLiesFarthest) {
  const std::vector<ComparedStep> steps = {step_of(1, 0, 0.1), step_of(1, 0, 0.1), step_of(1, 0, 0.8), step_of(1, 0, 0.12)};
  const std::vector<double> away = contradictions(steps, plain_prior());
  EXPECT_GT(away[2], 1);
  EXPECT_EQ(std::max_element(away.begin(), away.end()) - away.begin(), 2);
}

}  // namespace
}  // namespace panpipe
