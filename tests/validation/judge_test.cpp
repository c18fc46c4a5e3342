// The judge and what it learns, on sources made by the model itself.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "validation/judge/judge.hpp"

namespace panpipe::validation {
namespace {

// Normal numbers by Box and Muller: the same with every library.
class Normal {
 public:
  double operator()(double deviation) {
    const double u = uniform(), v = uniform();
    return deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }
  double uniform() { return (static_cast<double>(engine_()) + 1) / 4294967297.0; }

 private:
  std::mt19937 engine_{7};
};

struct Truth {
  double products = 0.15, host = 0.4, scatter = 0.03;
};

// Steps of all mixtures of products and host, on 1 to 8 GPUs.
std::vector<JudgedSource> sources_of(const Truth& truth, int count, int steps, Normal& normal) {
  std::vector<JudgedSource> sources;
  for (int s = 0; s < count; ++s) {
    JudgedSource& source = sources.emplace_back();
    source.source = "s" + std::to_string(s);
    source.family = "f" + std::to_string(s);
    const double products = normal(truth.products), host = normal(truth.host);
    for (int i = 0; i < steps; ++i) {
      JudgedStep& step = source.steps.emplace_back();
      const double share = normal.uniform();
      step.sensitivity[at(Direction::Products)] = share;
      step.sensitivity[at(Direction::Host)] = 1 - share;
      step.parallel = i % 2 ? "data" : "tensor";
      step.off = step.off_at_first_sight = share * products + (1 - share) * host + normal(truth.scatter);
      step.gpus = 1 << (i % 4);
      step.predicted_s = 1 + i;
    }
  }
  return sources;
}

std::vector<SourceSteps> as_learnt(const std::vector<JudgedSource>& sources) {
  std::vector<SourceSteps> learnt;
  for (const JudgedSource& source : sources)
    learnt.push_back({source.source, source.family, {source.steps.begin(), source.steps.end()}});
  return learnt;
}

TEST(Judge, LearnsTheSpreadsThatSourcesHave) {
  Normal normal;
  const UncertaintyPrior prior = learn_prior(as_learnt(sources_of({}, 150, 12, normal)));
  // Spread and scale share the variance: what counts is the interval of a step that is all of one cause. Before scatter and
  // blocks it is 1.2816 times the spread.
  const auto half_width = [&](Direction direction) {
    StepTraits step;
    step.sensitivity[at(direction)] = 1;
    return StepPosterior(prior, {}, StepClass::Dense).distribution(step).quantile(0.9);
  };
  EXPECT_NEAR(half_width(Direction::Products), 1.2816 * 0.15, 0.04);
  EXPECT_NEAR(half_width(Direction::Host), 1.2816 * 0.4, 0.1);
  // Directions that no step depends on stay as they were before.
  EXPECT_NEAR(prior.spread[at(Direction::Network)], prior_before_learning().spread[at(Direction::Network)], 0.3);
  double scatter = 0;
  for (const Weighted& entry : prior.scatter) scatter += entry.weight * entry.value;
  EXPECT_NEAR(scatter, 0.03, 0.015);
}

// Intervals hold what they state of sources whose family was left out, with and without given steps. The standard error of a
// coverage over 60 sources is about sqrt(0.8 x 0.2 / 60) = 5 %.
TEST(Judge, IntervalsHoldWhatTheyState) {
  Normal normal;
  const Judgement judgement = judge_sources(leave_out_families(sources_of({}, 60, 10, normal), 0));
  const auto holds = [](const Verdict& verdict) {
    EXPECT_NEAR(verdict.inside_50, 0.5, 0.14) << verdict.given << name_of(verdict.how);
    EXPECT_NEAR(verdict.inside_80, 0.8, 0.12) << verdict.given << name_of(verdict.how);
    EXPECT_NEAR(verdict.inside_95, 0.95, 0.06) << verdict.given << name_of(verdict.how);
  };
  holds(judgement.all.front());
  for (const Verdict& verdict : judgement.given) holds(verdict);
}

TEST(Judge, GivenStepsCorrectTheOthers) {
  Normal normal;
  const Judgement judgement = judge_sources(leave_out_families(sources_of({}, 60, 10, normal), 0));
  const auto error = [&](int given, GivenHow how) {
    for (const Verdict& verdict : judgement.given)
      if (verdict.given == given && verdict.how == how) return verdict.error;
    return 0.0;
  };
  const double none = error(0, GivenHow::Random);
  EXPECT_LT(error(1, GivenHow::Random), 0.8 * none);
  EXPECT_LT(error(3, GivenHow::Random), error(1, GivenHow::Random));
  EXPECT_LT(error(2, GivenHow::Chosen), error(2, GivenHow::Random));  // the second is unlike the first
  EXPECT_LT(error(5, GivenHow::Chosen), 0.05);
}

// Two sources of one family that are e times as long as predicted, among sources that are as predicted: nothing of them is known
// when they are judged, so that both lie outside.
TEST(Judge, AFamilySaysNothingOfItself) {
  Normal normal;
  std::vector<JudgedSource> sources = sources_of({0.02, 0.02, 0.01}, 20, 8, normal);
  for (const std::size_t s : {0U, 1U}) {
    sources[s].family = "slow";
    for (JudgedStep& step : sources[s].steps) step.off = step.off_at_first_sight = 1;
  }
  for (const Verdict& verdict : judge_sources(leave_out_families(sources, 0)).sources) {
    if (verdict.of != "s0" && verdict.of != "s1") continue;
    EXPECT_EQ(verdict.inside_80, 0);
    EXPECT_NEAR(verdict.bias, std::exp(-1) - 1, 0.02);
  }
}

// A source of many steps counts as one of few.
TEST(Judge, EachSourceCountsOnce) {
  Normal normal;
  std::vector<JudgedSource> sources = sources_of({0.02, 0.02, 0.01}, 9, 3, normal);
  std::vector<JudgedSource> large = sources_of({0.02, 0.02, 0.01}, 1, 200, normal);
  large.front().source = large.front().family = "large";
  for (JudgedStep& step : large.front().steps) step.off = step.off_at_first_sight = 0.5;
  sources.push_back(large.front());
  const Verdict all = judge_sources(leave_out_families(sources, 0)).all.front();
  EXPECT_EQ(all.sources, 10);
  EXPECT_EQ(all.steps, 227);
  EXPECT_NEAR(all.error, (1 - std::exp(-0.5)) / 10, 0.03);
}

TEST(Judge, WideningIsWhatUnfittedSourcesNeeded) {
  Normal normal;
  const std::vector<JudgedSource> sources = sources_of({}, 40, 10, normal);
  const std::vector<Widening> widening = widened_prior(sources, leave_out_families(sources, 0)).widening;
  ASSERT_EQ(widening.size(), 5U);  // 0, 1, 2, 3, 5 given steps
  for (const Widening& from : widening)
    for (const double factor : from.factor) EXPECT_NEAR(factor, 1, 0.3) << from.given;
}

// A half is the distance from the median to the quantile on the step's side: that of 90 % is at 1.2816 deviations. Of the others'
// steps, nine are 2 halves off and one is not: the 80 % quantile is 2. The named family, far off, has no part in it.
TEST(Judge, WideningLeavesTheJudgedFamilyOut) {
  const StepDistribution narrow({{1, 0, 0.1}}, 1);
  const auto source = [&](const std::string& family, double halves) {
    LeftOutSource made{family, family, {}};
    for (int i = 0; i < 10; ++i) made.steps[{}].push_back({narrow, {}, 0, i == 0 ? 0 : halves * 1.2816 * 0.1});
    return made;
  };
  const std::vector<LeftOutSource> sources = {source("others", 2), source("far", 50)};
  ASSERT_EQ(widening_of(sources, "far").size(), 1U);
  EXPECT_NEAR(widening_of(sources, "far").front().factor[0], 2, 1e-3);
  EXPECT_NEAR(widening_of(sources, "others").front().factor[0], 50, 0.1);
}

}  // namespace
}  // namespace panpipe::validation
