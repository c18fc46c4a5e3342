// Predicts the steps of sources as if nothing had been learnt from them: each family of sources is left out in turn, the prior is
// learnt from the others, and some steps of a source are given for the rest of it.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "validation/judge/learn_prior.hpp"

namespace panpipe::validation {

// A step to judge: the traits and the error of the present prediction.
struct JudgedStep : ComparedStep {
  int gpus = 1;
  double predicted_s = 0;
  double off_at_first_sight = 0;  // the same of the prediction before anything was fitted or mended for the source
};

struct JudgedSource {
  std::string source, family;
  std::vector<JudgedStep> steps;
};

enum class GivenHow { Random, SmallFirst, Chosen };
const char* name_of(GivenHow how);  // "random", "small first", "chosen"

struct Giving {
  int count = 0;
  GivenHow how{};
  auto operator<=>(const Giving&) const = default;
};
inline constexpr int kGivenCounts[] = {1, 2, 3, 5};
inline constexpr std::size_t kLeastGiven = 7;  // steps of a source of which some are given

// A step that was not given. Its distribution is not widened.
struct LeftOutStep {
  StepDistribution distribution;
  StepClass of{};
  double off = 0;
  double off_at_first_sight = 0;  // what the interval should hold while no step is given
  double to_hold(std::size_t given) const { return given == 0 ? off_at_first_sight : off; }
};

struct LeftOutSource {
  std::string source, family;
  std::map<Giving, std::vector<LeftOutStep>> steps;  // {} has all steps; the others have those of every draw
};

// `threads`: 0 for all of the machine.
std::vector<LeftOutSource> leave_out_families(const std::vector<JudgedSource>& sources, int threads);

// The factors, by the number of given steps and by class, on the logarithms' intervals with which 80 % of the steps would have
// been inside, each source and each way to give steps counting alike; the sources of other classes together count as
// kOtherClasses. `but`: a family that has no part in it.
inline constexpr double kOtherClasses = 2;
std::vector<Widening> widening_of(const std::vector<LeftOutSource>& sources, const std::string& but = "");

// The prior from all sources, widened by what they needed when their families were left out.
UncertaintyPrior widened_prior(const std::vector<JudgedSource>& sources, const std::vector<LeftOutSource>& left_out);

}  // namespace panpipe::validation
