// The distribution of measured steps about their prediction, against closed forms of normal distributions.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

constexpr double kTenth = 1.2815515655446004;  // of a normal distribution: one in ten is above

// One cell: no factors, one scatter, nothing missing.
UncertaintyPrior plain_prior(double products, double host, double block, double scatter) {
  UncertaintyPrior prior;
  prior.spread[at(Direction::Products)] = products;
  prior.spread[at(Direction::Host)] = host;
  prior.block_spread = block;
  prior.scale = {{1, 1}};
  prior.scatter = {{scatter, 1}};
  for (MissingWeights& weights : prior.missing) weights = {1, 0, 0, 0};
  return prior;
}

ComparedStep step_of(double products, double host, const std::string& parallel, double off = 0) {
  ComparedStep step;
  step.sensitivity[at(Direction::Products)] = products;
  step.sensitivity[at(Direction::Host)] = host;
  step.parallel = parallel;
  step.off = off;
  return step;
}

// Variance of a step that is half products and half host: (0.2 / 2)^2 + (0.4 / 2)^2 + 0.03^2 + 0.05^2 = 0.0534.
TEST(Uncertainty, WithoutEvidenceSpreadsAddUp) {
  const UncertaintyPrior prior = plain_prior(0.2, 0.4, 0.03, 0.05);
  const StepPosterior posterior(prior, {}, StepClass::Dense);
  const ComparedStep step = step_of(0.5, 0.5, "data");
  const StepDistribution distribution = posterior.distribution(step);
  EXPECT_NEAR(distribution.variance(), 0.0534, 1e-12);
  EXPECT_NEAR(distribution.quantile(0.5), 0, 1e-6);
  EXPECT_NEAR(distribution.quantile(0.9), kTenth * std::sqrt(0.0534), 1e-6);
  EXPECT_NEAR(distribution.quantile(0.1), -kTenth * std::sqrt(0.0534), 1e-6);
  // At the centre the density is 1 / sqrt(2 pi 0.0534).
  EXPECT_NEAR(distribution.log_density(0), -std::log(2 * M_PI * 0.0534) / 2, 1e-9);
  const StepCauses causes = posterior.causes(step);
  EXPECT_NEAR(causes[at(Direction::Products)], 0.01 / 0.0534, 1e-9);
  EXPECT_NEAR(causes[at(Direction::Host)], 0.04 / 0.0534, 1e-9);
  EXPECT_NEAR(causes[kCauseBlock], 0.0009 / 0.0534, 1e-9);
  EXPECT_NEAR(causes[kCauseScatter], 0.0025 / 0.0534, 1e-9);
}

// One measured step, all products, 0.3 off; another step that is half products, of another block. With the given step's variance
// 0.2^2 + 0.03^2 + 0.05^2 = 0.0434 and the covariance 0.5 x 0.04 = 0.02: mean 0.3 x 0.02 / 0.0434, variance 0.01 + 0.0034 -
// 0.02^2 / 0.0434.
TEST(Uncertainty, AMeasuredStepMovesAnotherByWhatTheyShare) {
  const UncertaintyPrior prior = plain_prior(0.2, 0.4, 0.03, 0.05);
  const StepPosterior posterior(prior, {step_of(1, 0, "data", 0.3)}, StepClass::Dense);
  const StepDistribution other = posterior.distribution(step_of(0.5, 0, "tensor"));
  EXPECT_NEAR(other.quantile(0.5), 0.3 * 0.02 / 0.0434, 1e-6);
  EXPECT_NEAR(other.variance(), 0.0134 - 0.0004 / 0.0434, 1e-12);
  // What is all host shares nothing with it.
  EXPECT_NEAR(posterior.distribution(step_of(0, 1, "tensor")).quantile(0.5), 0, 1e-6);
  EXPECT_NEAR(posterior.distribution(step_of(0, 1, "tensor")).variance(), 0.16 + 0.0034, 1e-12);
  // One of the same block shares that too.
  EXPECT_NEAR(posterior.distribution(step_of(0.5, 0, "data")).quantile(0.5), 0.3 * 0.0209 / 0.0434, 1e-6);
}

TEST(Uncertainty, EvidenceNeverWidens) {
  const UncertaintyPrior prior = plain_prior(0.2, 0.4, 0.03, 0.05);
  std::vector<ComparedStep> given;
  double before = 1e300;
  for (int i = 0; i < 12; ++i) {
    const ComparedStep step = step_of(0.6, 0.4, "data");
    const double variance = StepPosterior(prior, given, StepClass::Dense).distribution(step).variance();
    EXPECT_LE(variance, before);
    before = variance;
    given.push_back(step_of(0.1 * i, 1 - 0.1 * i, i % 2 ? "data" : "tensor", 0.1));
  }
  // What is left is the scatter of one step.
  EXPECT_GT(before, 0.0025);
  EXPECT_LT(before, 0.0035);
}

// Scatters of 0.01 and 0.3: steps that agree make the small one likely, steps that do not the large one.
TEST(Uncertainty, MeasuredStepsMoveTheWeightsOfTheGrid) {
  UncertaintyPrior prior = plain_prior(0.2, 0, 0, 0.01);
  prior.scatter = {{0.01, 0.5}, {0.3, 0.5}};
  const auto width = [&](double a, double b, double c) {
    const StepPosterior posterior(prior, {step_of(1, 0, "data", a), step_of(1, 0, "data", b), step_of(1, 0, "data", c)},
                                  StepClass::Dense);
    const StepDistribution distribution = posterior.distribution(step_of(1, 0, "data"));
    return distribution.quantile(0.9) - distribution.quantile(0.1);
  };
  EXPECT_LT(width(0.1, 0.105, 0.095), 0.05);
  EXPECT_GT(width(0.1, 0.5, -0.3), 0.5);
}

// A class of which half the sources take e times as long: before evidence both are possible; a step as predicted, or e times as
// long, decides. Steps of other classes are not touched.
TEST(Uncertainty, MissingTimeIsFoundByOneStep) {
  UncertaintyPrior prior = plain_prior(0.05, 0, 0, 0.03);
  prior.missing[at(StepClass::Experts)] = {0.5, 0, 0, 0.5};
  const auto experts = [](double off) {
    ComparedStep step = step_of(1, 0, "data", off);
    step.of = StepClass::Experts;
    return step;
  };
  const StepDistribution before = StepPosterior(prior, {}, StepClass::Experts).distribution(experts(0));
  EXPECT_LT(before.quantile(0.1), 0.05);
  EXPECT_GT(before.quantile(0.9), 0.95);
  EXPECT_NEAR(StepPosterior(prior, {experts(1)}, StepClass::Experts).distribution(experts(0)).quantile(0.5), 1, 0.05);
  EXPECT_NEAR(StepPosterior(prior, {experts(0)}, StepClass::Experts).distribution(experts(0)).quantile(0.5), 0, 0.05);
  EXPECT_NEAR(StepPosterior(prior, {}, StepClass::Dense).distribution(step_of(1, 0, "data")).quantile(0.9),
              kTenth * std::sqrt(0.0034), 1e-6);
}

TEST(Uncertainty, QuantilesAndDensityAreOfOneDistribution) {
  const StepDistribution distribution({{0.6, 0, 0.1}, {0.3, 0.2, 0.4}, {0.1, 1, 0.2}}, 1.3);
  // The density summed up to a quantile is its share.
  constexpr double kStep = 1e-3;
  double sum = 0, at = -6;
  for (const double share : {0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975}) {
    const double quantile = distribution.quantile(share);
    for (; at < quantile; at += kStep) sum += std::exp(distribution.log_density(at + kStep / 2)) * kStep;
    EXPECT_NEAR(sum, share, 2e-3);
  }
  for (; at < 6; at += kStep) sum += std::exp(distribution.log_density(at)) * kStep;
  EXPECT_NEAR(sum, 1, 1e-3);
}

TEST(Uncertainty, WideningStretchesTheLogarithm) {
  UncertaintyPrior prior = plain_prior(0.2, 0, 0, 0.05);
  prior.widening = {{0, {1.5}}};  // of the first class
  const StepDistribution distribution = StepPosterior(prior, {}, StepClass::Dense).distribution(step_of(1, 0, "data"));
  EXPECT_NEAR(distribution.quantile(0.9), 1.5 * kTenth * std::sqrt(0.0425), 1e-6);
}

TEST(Uncertainty, AFaultOfAPriorIsNamed) {
  const auto fault = [](const UncertaintyPrior& prior) { return test::fault_of([&] { check_prior(prior, "p"); }); };
  UncertaintyPrior prior = plain_prior(0.2, 0, 0, 0.05);
  EXPECT_NO_THROW(check_prior(prior, "p"));
  prior.scale = {{1, 0.7}};
  EXPECT_EQ(fault(prior), "error: p: scale: weights are from 0 and add up to 1");
  prior.scale = {{0, 1}};
  EXPECT_EQ(fault(prior), "error: p: scale: values are above 0");
  prior = plain_prior(-0.2, 0, 0, 0.05);
  EXPECT_EQ(fault(prior), "error: p: a spread is from 0");
  prior = plain_prior(0.2, 0, 0, 0.05);
  prior.widening = {{0, {0}}};
  EXPECT_EQ(fault(prior), "error: p: widening: factors are above 0");
  prior = plain_prior(0.2, 0, 0, 0.05);
  prior.missing[0] = {1, 1, 0, 0};
  EXPECT_EQ(fault(prior), "error: p: missing: weights are from 0 and add up to 1");
}

}  // namespace
}  // namespace panpipe
