// Judges predictions and their intervals on sources that nothing was learnt from: each family of sources is left out in turn,
// the prior is learnt from the others, and some steps of a source are given for the rest of it. Each source counts once.
#pragma once

#include <string>
#include <vector>

#include "validation/judge/learn_prior.hpp"

namespace panpipe::validation {

// A step to judge: the traits and the error of the present prediction.
struct JudgedStep : ComparedStep {
  int gpus = 1;
  double predicted_s = 0;
  // ln(measured / predicted) at first sight, before anything was fitted to the source. Priors are learnt from it.
  double off_at_first = 0;
};

struct JudgedSource {
  std::string source, family;
  std::vector<JudgedStep> steps;
};

enum class GivenHow { Random, SmallFirst, Chosen };
const char* name_of(GivenHow how);  // "random", "small first", "chosen"

// Means over sources, of the steps that were not given.
struct Verdict {
  std::string of;  // "all", a class, a source
  int given = 0;
  GivenHow how{};
  int sources = 0, steps = 0;
  double error = 0;  // |predicted / measured - 1| of the distribution's median
  double bias = 0;   // predicted / measured - 1
  double inside_50 = 0, inside_80 = 0, inside_95 = 0;
  double half_width = 0;  // sqrt(p90 / p10) - 1
  double log_score = 0;   // mean natural logarithm of the density
};

struct Judgement {
  std::vector<Verdict> all;      // without given steps: all sources
  std::vector<Verdict> classes;  // the same by class
  std::vector<Verdict> given;    // sources of at least kLeastJudged steps, by number of given steps and how these are chosen
  std::vector<Verdict> sources;  // without given steps, by source, the worst first
};
inline constexpr std::size_t kLeastJudged = 7;

// `threads`: 0 for all of the machine.
Judgement judge_sources(const std::vector<JudgedSource>& sources, int threads);

// The prior from all sources, widened to what the sources of first sight needed when their families were left out.
UncertaintyPrior widened_prior(const std::vector<JudgedSource>& sources, int threads);

std::string to_table(const Judgement& judgement);

}  // namespace panpipe::validation
