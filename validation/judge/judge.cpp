#include "validation/judge/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/index.hpp"
#include "base/parallel_for.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/prediction/evidence.hpp"

namespace panpipe::validation {
namespace {

constexpr std::array kGiven = {1, 2, 3, 5};
constexpr int kDraws = 8;  // of random given steps

using Places = std::vector<std::size_t>;  // of steps in a source

std::vector<SourceSteps> learnt_from(const std::vector<JudgedSource>& sources, const std::string& without_family) {
  std::vector<SourceSteps> learnt;
  for (const JudgedSource& source : sources) {
    if (source.family == without_family) continue;
    SourceSteps& steps = learnt.emplace_back(SourceSteps{source.source, source.family, {}});
    for (const JudgedStep& step : source.steps) {
      steps.steps.push_back(step);
      steps.steps.back().off = step.off_at_first;
    }
  }
  return learnt;
}

// Sums over steps, for means.
struct Tally {
  int steps = 0;
  double error = 0, bias = 0, inside_50 = 0, inside_80 = 0, inside_95 = 0, width = 0, log_score = 0;

  void add(const StepDistribution& distribution, double off) {
    const auto inside = [&](double tail) {
      return distribution.quantile(tail) <= off && off <= distribution.quantile(1 - tail) ? 1.0 : 0.0;
    };
    const double difference = std::expm1(distribution.quantile(0.5) - off);
    ++steps;
    error += std::abs(difference);
    bias += difference;
    inside_50 += inside(0.25);
    inside_80 += inside(0.1);
    inside_95 += inside(0.025);
    width += std::expm1((distribution.quantile(0.9) - distribution.quantile(0.1)) / 2);
    log_score += distribution.log_density(off);
  }
};

// Sources with their means, each once.
Verdict verdict_of(const std::string& of, int given, GivenHow how, const std::vector<Tally>& tallies) {
  Verdict verdict{of, given, how};
  for (const Tally& tally : tallies) {
    if (tally.steps == 0) continue;
    const double share = 1.0 / tally.steps;
    ++verdict.sources;
    verdict.steps += tally.steps;
    verdict.error += tally.error * share;
    verdict.bias += tally.bias * share;
    verdict.inside_50 += tally.inside_50 * share;
    verdict.inside_80 += tally.inside_80 * share;
    verdict.inside_95 += tally.inside_95 * share;
    verdict.half_width += tally.width * share;
    verdict.log_score += tally.log_score * share;
  }
  if (verdict.sources == 0) return verdict;
  for (double* mean : {&verdict.error, &verdict.bias, &verdict.inside_50, &verdict.inside_80, &verdict.inside_95,
                       &verdict.half_width, &verdict.log_score})
    *mean /= verdict.sources;
  return verdict;
}

// The steps of a source that are not given, predicted with those that are.
Tally judged(const UncertaintyPrior& prior, const JudgedSource& source, const Places& given) {
  std::vector<ComparedStep> evidence;
  for (const std::size_t i : given) evidence.push_back(source.steps[i]);
  std::map<StepClass, StepPosterior> posteriors;
  Tally tally;
  for (std::size_t i = 0; i < source.steps.size(); ++i) {
    if (std::find(given.begin(), given.end(), i) != given.end()) continue;
    const JudgedStep& step = source.steps[i];
    const auto posterior = posteriors.try_emplace(step.of, prior, evidence, step.of).first;
    tally.add(posterior->second.distribution(step), step.off);
  }
  return tally;
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
  std::mt19937 engine(static_cast<unsigned>(std::hash<std::string>{}(source.source)));
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

Tally sum_of(const std::vector<Tally>& tallies) {
  Tally sum;
  for (const Tally& t : tallies) {
    sum.steps += t.steps;
    sum.error += t.error, sum.bias += t.bias, sum.width += t.width, sum.log_score += t.log_score;
    sum.inside_50 += t.inside_50, sum.inside_80 += t.inside_80, sum.inside_95 += t.inside_95;
  }
  return sum;
}

// The tallies of one source, from a prior without its family.
struct SourceVerdicts {
  Tally without;
  std::array<Tally, kStepClasses> classes;
  std::map<std::pair<int, GivenHow>, Tally> given;  // empty for a source of few steps
};

SourceVerdicts verdicts_of(const UncertaintyPrior& prior, const JudgedSource& source) {
  SourceVerdicts verdicts;
  verdicts.without = judged(prior, source, {});
  for (std::size_t c = 0; c < kStepClasses; ++c) {
    JudgedSource of_class{source.source, source.family, {}};
    for (const JudgedStep& step : source.steps)
      if (at(step.of) == c) of_class.steps.push_back(step);
    verdicts.classes[c] = judged(prior, of_class, {});
  }
  if (source.steps.size() < kLeastJudged) return verdicts;
  for (const int count : kGiven)
    for (const GivenHow how : {GivenHow::Random, GivenHow::SmallFirst, GivenHow::Chosen}) {
      std::vector<Tally> tallies;
      for (const Places& given : draws_of(prior, source, count, how)) tallies.push_back(judged(prior, source, given));
      verdicts.given[{count, how}] = sum_of(tallies);
    }
  return verdicts;
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

Judgement judge_sources(const std::vector<JudgedSource>& sources, int threads) {
  const std::vector<std::string> families = families_of(sources);
  std::vector<SourceVerdicts> verdicts(sources.size());
  parallel_for(families.size(), threads, [&](std::size_t f, std::size_t) {
    const UncertaintyPrior prior = learn_prior(learnt_from(sources, families[f]));
    for (std::size_t s = 0; s < sources.size(); ++s)
      if (sources[s].family == families[f]) verdicts[s] = verdicts_of(prior, sources[s]);
  });
  Judgement judgement;
  const auto means = [&](const std::string& of, int given, GivenHow how, const auto& tally_of) {
    std::vector<Tally> tallies;
    for (const SourceVerdicts& source : verdicts) tallies.push_back(tally_of(source));
    return verdict_of(of, given, how, tallies);
  };
  judgement.all.push_back(means("all", 0, GivenHow::Random, [](const SourceVerdicts& v) { return v.without; }));
  for (std::size_t c = 0; c < kStepClasses; ++c) {
    const Verdict verdict = means(std::string(name_of(static_cast<StepClass>(c))), 0, GivenHow::Random,
                                  [c](const SourceVerdicts& v) { return v.classes[c]; });
    if (verdict.sources > 0) judgement.classes.push_back(verdict);
  }
  judgement.given.push_back(
      means("all", 0, GivenHow::Random, [](const SourceVerdicts& v) { return v.given.empty() ? Tally() : v.without; }));
  for (const GivenHow how : {GivenHow::Random, GivenHow::SmallFirst, GivenHow::Chosen})
    for (const int count : kGiven)
      judgement.given.push_back(means("all", count, how, [&](const SourceVerdicts& v) {
        const auto found = v.given.find({count, how});
        return found == v.given.end() ? Tally() : found->second;
      }));
  for (std::size_t s = 0; s < sources.size(); ++s)
    judgement.sources.push_back(verdict_of(sources[s].source, 0, GivenHow::Random, {verdicts[s].without}));
  std::stable_sort(judgement.sources.begin(), judgement.sources.end(),
                   [](const Verdict& a, const Verdict& b) { return a.error > b.error; });
  return judgement;
}

UncertaintyPrior widened_prior(const std::vector<JudgedSource>& sources, int threads) {
  constexpr double kInside = 0.8;
  const std::vector<std::string> families = families_of(sources);
  // How far off each step was in units of its interval's half, its family left out; the sources count alike.
  std::vector<std::vector<std::pair<double, double>>> ratios(families.size());
  parallel_for(families.size(), threads, [&](std::size_t f, std::size_t) {
    const UncertaintyPrior prior = learn_prior(learnt_from(sources, families[f]));
    for (const JudgedSource& source : sources) {
      if (source.family != families[f]) continue;
      for (const JudgedStep& step : source.steps) {
        const StepDistribution distribution = StepPosterior(prior, {}, step.of).distribution(step);
        const double median = distribution.quantile(0.5), side = step.off_at_first - median;
        const double width = std::abs(distribution.quantile(side < 0 ? 0.1 : 0.9) - median);
        ratios[f].emplace_back(std::abs(side) / width, 1.0 / static_cast<double>(source.steps.size()));
      }
    }
  });
  std::vector<std::pair<double, double>> all;
  for (const auto& of_family : ratios) all.insert(all.end(), of_family.begin(), of_family.end());
  UncertaintyPrior prior = learn_prior(learnt_from(sources, ""));
  prior.widening = std::max(1.0, weighted_quantile(std::move(all), kInside));
  return prior;
}

std::string to_table(const Judgement& judgement) {
  TextTable table(
      {"<of", "given", "<how", "sources", "steps", "error", "bias", "in 50", "in 80", "in 95", "half width", "log score"});
  const auto add = [&](const std::vector<Verdict>& verdicts) {
    for (const Verdict& v : verdicts) {
      const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
      table.row({v.of, std::to_string(v.given), v.given > 0 ? name_of(v.how) : "", std::to_string(v.sources),
                 std::to_string(v.steps), percent(v.error), fmt::format("{:+.1f}", 100 * v.bias), percent(v.inside_50),
                 percent(v.inside_80), percent(v.inside_95), percent(v.half_width), fmt::format("{:.2f}", v.log_score)});
    }
  };
  table.line("families of sources left out; each source counts once; errors and shares in %");
  add(judgement.all);
  add(judgement.classes);
  table.line(fmt::format("sources of at least {} steps, with some of them given", kLeastJudged));
  add(judgement.given);
  table.line("by source, the worst first");
  add(judgement.sources);
  return table.text();
}

}  // namespace panpipe::validation
