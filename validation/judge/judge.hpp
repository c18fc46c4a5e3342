// Judges predictions and their intervals on sources that nothing was learnt from. Each source counts once.
#pragma once

#include <string>
#include <vector>

#include "validation/judge/left_out_families.hpp"

namespace panpipe::validation {

struct JudgedFigures {
  double error = 0;  // |predicted / measured - 1| of the distribution's median
  double bias = 0;   // predicted / measured - 1
  double inside_50 = 0, inside_80 = 0, inside_95 = 0;
  double half_width = 0;  // sqrt(p90 / p10) - 1
  double log_score = 0;   // natural logarithm of the density
};

// Means over sources, of the steps that were not given.
struct Verdict : JudgedFigures {
  std::string of;  // "all", a class, a source
  int given = 0;
  GivenHow how{};
  int sources = 0, steps = 0;
};

struct Judgement {
  std::vector<Verdict> all;          // without given steps: all sources
  std::vector<Verdict> classes;      // the same by class
  std::vector<Verdict> first_sight;  // both of the predictions before anything was fitted or mended for a source
  std::vector<Verdict> given;        // sources of at least kLeastGiven steps, by number of given steps and how these are chosen
  std::vector<Verdict> sources;      // without given steps, by source, the worst first
};

// An interval is as wide as the sources of other families need.
Judgement judge_sources(const std::vector<LeftOutSource>& sources);

std::string to_table(const Judgement& judgement);

}  // namespace panpipe::validation
