#include "validation/judge/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/index.hpp"
#include "base/text/text_table.hpp"

namespace panpipe::validation {
namespace {

constexpr double JudgedFigures::*kJudgedFigures[] = {
    &JudgedFigures::error,     &JudgedFigures::bias,       &JudgedFigures::inside_50, &JudgedFigures::inside_80,
    &JudgedFigures::inside_95, &JudgedFigures::half_width, &JudgedFigures::log_score};

// Sums over steps, for means.
struct Tally : JudgedFigures {
  int steps = 0;

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
    half_width += std::expm1((distribution.quantile(0.9) - distribution.quantile(0.1)) / 2);
    log_score += distribution.log_density(off);
  }
};

// Sources with their means, each once.
Verdict verdict_of(const std::string& of, int given, GivenHow how, const std::vector<Tally>& tallies) {
  Verdict verdict{{}, of, given, how};
  for (const Tally& tally : tallies) {
    if (tally.steps == 0) continue;
    ++verdict.sources;
    verdict.steps += tally.steps;
    for (const auto figure : kJudgedFigures) verdict.*figure += tally.*figure * (1.0 / tally.steps);
  }
  for (const auto figure : kJudgedFigures)
    if (verdict.sources > 0) verdict.*figure /= verdict.sources;
  return verdict;
}

// The tallies of one source.
struct SourceVerdicts {
  Tally without, first_sight;
  std::array<Tally, kStepClasses> classes, classes_at_first_sight;
  std::map<Giving, Tally> given;  // empty for a source of few steps
};

SourceVerdicts verdicts_of(const LeftOutSource& source, const std::vector<Widening>& widening) {
  SourceVerdicts verdicts;
  for (const auto& [giving, steps] : source.steps) {
    for (const LeftOutStep& step : steps) {
      const StepDistribution distribution = step.distribution.widened(widening_with(widening, at(giving.count), step.of));
      if (giving.count > 0) {
        verdicts.given[giving].add(distribution, step.off);
        continue;
      }
      verdicts.without.add(distribution, step.off);
      verdicts.classes[at(step.of)].add(distribution, step.off);
      verdicts.first_sight.add(distribution, step.off_at_first_sight);
      verdicts.classes_at_first_sight[at(step.of)].add(distribution, step.off_at_first_sight);
    }
  }
  return verdicts;
}

}  // namespace

Judgement judge_sources(const std::vector<LeftOutSource>& sources) {
  std::vector<SourceVerdicts> verdicts;
  std::map<std::string, std::vector<Widening>> widenings;
  for (const LeftOutSource& source : sources) {
    const auto found = widenings.find(source.family);
    if (found == widenings.end()) widenings[source.family] = widening_of(sources, source.family);
    verdicts.push_back(verdicts_of(source, widenings[source.family]));
  }
  Judgement judgement;
  const auto means = [&](const std::string& of, int given, GivenHow how, const auto& tally_of) {
    std::vector<Tally> tallies;
    for (const SourceVerdicts& source : verdicts) tallies.push_back(tally_of(source));
    return verdict_of(of, given, how, tallies);
  };
  const auto without = [&](const std::string& of, std::vector<Verdict>& verdicts_of_it, const auto& tally_of) {
    const Verdict verdict = means(of, 0, GivenHow::Random, tally_of);
    if (verdict.sources > 0) verdicts_of_it.push_back(verdict);
  };
  without("all", judgement.all, [](const SourceVerdicts& v) { return v.without; });
  without("all", judgement.first_sight, [](const SourceVerdicts& v) { return v.first_sight; });
  for (std::size_t c = 0; c < kStepClasses; ++c) {
    const std::string name(name_of(static_cast<StepClass>(c)));
    without(name, judgement.classes, [c](const SourceVerdicts& v) { return v.classes[c]; });
    without(name, judgement.first_sight, [c](const SourceVerdicts& v) { return v.classes_at_first_sight[c]; });
  }
  judgement.given.push_back(
      means("all", 0, GivenHow::Random, [](const SourceVerdicts& v) { return v.given.empty() ? Tally() : v.without; }));
  for (const GivenHow how : {GivenHow::Random, GivenHow::SmallFirst, GivenHow::Chosen})
    for (const int count : kGivenCounts)
      judgement.given.push_back(means("all", count, how, [&](const SourceVerdicts& v) {
        const auto found = v.given.find(Giving{count, how});
        return found == v.given.end() ? Tally() : found->second;
      }));
  for (std::size_t s = 0; s < sources.size(); ++s)
    judgement.sources.push_back(verdict_of(sources[s].source, 0, GivenHow::Random, {verdicts[s].without}));
  std::stable_sort(judgement.sources.begin(), judgement.sources.end(),
                   [](const Verdict& a, const Verdict& b) { return a.error > b.error; });
  return judgement;
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
  table.line("the same steps as they were predicted at first sight: intervals are made to hold these");
  add(judgement.first_sight);
  table.line(fmt::format("sources of at least {} steps, with some of them given", kLeastGiven));
  add(judgement.given);
  table.line("by source, the worst first");
  add(judgement.sources);
  return table.text();
}

}  // namespace panpipe::validation
