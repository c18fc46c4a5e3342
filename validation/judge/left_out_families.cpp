#include "validation/judge/left_out_families.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/index.hpp"
#include "base/parallel_for.hpp"
#include "costmodel/prediction/evidence.hpp"

namespace panpipe::validation {
namespace {

constexpr int kDraws = 8;      // of random given steps
constexpr int kGivenWays = 3;  // to give steps: GivenHow

using Places = std::vector<std::size_t>;  // of steps in a source

std::vector<SourceSteps> learnt_from(const std::vector<JudgedSource>& sources, const std::string& without_family) {
  std::vector<SourceSteps> learnt;
  for (const JudgedSource& source : sources) {
    if (source.family == without_family) continue;
    SourceSteps& steps = learnt.emplace_back(SourceSteps{source.source, source.family, {}});
    for (const JudgedStep& step : source.steps) {
      steps.steps.push_back(step);
      steps.steps.back().off = step.off_at_first_sight;
    }
  }
  return learnt;
}

// Adds the steps of a source that are not given, predicted with those that are.
void predict_others(const UncertaintyPrior& prior, const JudgedSource& source, const Places& given,
                    std::vector<LeftOutStep>& predicted) {
  std::vector<ComparedStep> evidence;
  for (const std::size_t i : given) evidence.push_back(source.steps[i]);
  std::map<StepClass, StepPosterior> posteriors;
  for (std::size_t i = 0; i < source.steps.size(); ++i) {
    if (std::find(given.begin(), given.end(), i) != given.end()) continue;
    const JudgedStep& step = source.steps[i];
    const auto posterior = posteriors.try_emplace(step.of, prior, evidence, step.of).first;
    predicted.push_back({posterior->second.distribution(step), step.of, step.off, step.off_at_first_sight});
  }
}

// The cheapest first: the fewest GPUs, then the shortest predicted step. What was measured has no part in it.
Places cheapest_first(const JudgedSource& source) {
  Places order(source.steps.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const JudgedStep &x = source.steps[a], &y = source.steps[b];
    return std::pair(x.gpus, x.predicted_s) < std::pair(y.gpus, y.predicted_s);
  });
  return order;
}

// Of the cheaper half the one after which the other steps vary least, and so on. Variances do not depend on what is measured
// but through the weights of the grid, which stay those before.
Places chosen(const UncertaintyPrior& prior, const JudgedSource& source, std::size_t count) {
  const Places order = cheapest_first(source);
  const std::size_t cheap = std::max(count, (order.size() + 1) / 2);
  Places found;
  while (found.size() < count) {
    std::optional<std::pair<double, std::size_t>> best;
    for (std::size_t c = 0; c < cheap; ++c) {
      if (std::find(found.begin(), found.end(), order[c]) != found.end()) continue;
      std::vector<ComparedStep> evidence;
      for (const std::size_t i : found) evidence.push_back(source.steps[i]);
      evidence.push_back(source.steps[order[c]]);
      for (ComparedStep& step : evidence) step.off = 0;
      const StepPosterior posterior(prior, evidence, source.steps[order[c]].of);
      double left = 0;
      for (const JudgedStep& step : source.steps) left += posterior.distribution(step).variance();
      if (!best || left < best->first) best = {left, order[c]};
    }
    found.push_back(best->second);
  }
  return found;
}

std::vector<Places> draws_of(const UncertaintyPrior& prior, const JudgedSource& source, int count, GivenHow how) {
  if (how == GivenHow::Chosen) return {chosen(prior, source, at(count))};
  if (how == GivenHow::SmallFirst) {
    Places order = cheapest_first(source);
    order.resize(at(count));
    return {order};
  }
  std::seed_seq seed(source.source.begin(), source.source.end());
  std::mt19937 engine(seed);
  std::vector<Places> draws;
  for (int draw = 0; draw < kDraws; ++draw) {
    Places order(source.steps.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = 0; i < at(count); ++i) std::swap(order[i], order[i + engine() % (order.size() - i)]);
    order.resize(at(count));
    draws.push_back(order);
  }
  return draws;
}

LeftOutSource left_out_source(const UncertaintyPrior& prior, const JudgedSource& source) {
  LeftOutSource left_out{source.source, source.family, {}};
  predict_others(prior, source, {}, left_out.steps[{}]);
  if (source.steps.size() < kLeastGiven) return left_out;
  for (const int count : kGivenCounts)
    for (const GivenHow how : {GivenHow::Random, GivenHow::SmallFirst, GivenHow::Chosen})
      for (const Places& given : draws_of(prior, source, count, how))
        predict_others(prior, source, given, left_out.steps[{count, how}]);
  return left_out;
}

// How far off a step was, in units of its interval's half.
double halves_off(const LeftOutStep& step, std::size_t given) {
  const double median = step.distribution.quantile(0.5), side = step.to_hold(given) - median;
  return std::abs(side / (step.distribution.quantile(side < 0 ? 0.1 : 0.9) - median));
}

using Halves = std::vector<std::pair<double, double>>;  // how far off, weight

double weight_of(const Halves& halves) {
  return std::accumulate(halves.begin(), halves.end(), 0.0, [](double sum, const auto& entry) { return sum + entry.second; });
}

// With `ways` to give steps a source has a weight of 1 in each.
double factor_of(const std::array<Halves, kStepClasses>& by_class, std::size_t of, double ways) {
  constexpr double kInside = 0.8;
  Halves halves = by_class[of];
  double others = 0;
  for (std::size_t c = 0; c < kStepClasses; ++c)
    if (c != of) others += weight_of(by_class[c]);
  for (std::size_t c = 0; c < kStepClasses; ++c)
    if (c != of)
      for (const auto& [off, weight] : by_class[c]) halves.emplace_back(off, weight * kOtherClasses * ways / others);
  return halves.empty() ? 1 : weighted_quantile(std::move(halves), kInside);
}

std::vector<std::string> families_of(const std::vector<JudgedSource>& sources) {
  std::set<std::string> families;
  for (const JudgedSource& source : sources) families.insert(source.family);
  return {families.begin(), families.end()};
}

}  // namespace

const char* name_of(GivenHow how) {
  constexpr const char* kNames[] = {"random", "small first", "chosen"};
  return kNames[at(how)];
}

std::vector<LeftOutSource> leave_out_families(const std::vector<JudgedSource>& sources, int threads) {
  const std::vector<std::string> families = families_of(sources);
  std::vector<LeftOutSource> left_out(sources.size());
  parallel_for(families.size(), threads, [&](std::size_t f, std::size_t) {
    const UncertaintyPrior prior = learn_prior(learnt_from(sources, families[f]));
    for (std::size_t s = 0; s < sources.size(); ++s)
      if (sources[s].family == families[f]) left_out[s] = left_out_source(prior, sources[s]);
  });
  return left_out;
}

std::vector<Widening> widening_of(const std::vector<LeftOutSource>& sources, const std::string& but) {
  std::map<std::size_t, std::array<Halves, kStepClasses>> halves;  // by the number of given steps
  halves[0];
  for (const LeftOutSource& source : sources) {
    if (source.family == but) continue;
    for (const auto& [giving, steps] : source.steps) {
      std::array<double, kStepClasses> counts{};
      for (const LeftOutStep& step : steps) ++counts[at(step.of)];
      for (const LeftOutStep& step : steps)
        halves[at(giving.count)][at(step.of)].emplace_back(halves_off(step, at(giving.count)), 1 / counts[at(step.of)]);
    }
  }
  std::vector<Widening> widening;
  for (const auto& [given, by_class] : halves) {
    Widening& from = widening.emplace_back(Widening{given, {}});
    for (std::size_t c = 0; c < kStepClasses; ++c) from.factor[c] = factor_of(by_class, c, given == 0 ? 1 : kGivenWays);
  }
  return widening;
}

UncertaintyPrior widened_prior(const std::vector<JudgedSource>& sources, const std::vector<LeftOutSource>& left_out) {
  UncertaintyPrior prior = learn_prior(learnt_from(sources, ""));
  prior.widening = widening_of(left_out);
  return prior;
}

}  // namespace panpipe::validation
