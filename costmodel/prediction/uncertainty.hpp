// The distribution of measured steps about their prediction: a hierarchical model of how sources of measurements differ, moved by
// measured steps of the same source. Method, limits and validation: docs/models/uncertainty.md.
//
// For a step i of a source, ln(measured / predicted) = j_i . d + b + m + e with j_i its sensitivity. Normal: d, one draw per
// source, with the spreads of the directions; b, one per block of like steps; e, of each step. The variances of d and b have a
// factor, and e has a scatter, that differ by source: both have weights on a grid, so that tails are heavy and measured steps
// move the weights. m is a step's missing time: a source of a class in which a term is missing has one of a few values.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "costmodel/prediction/step_traits.hpp"

namespace panpipe {

struct Weighted {
  double value = 0, weight = 0;
};

// Of ln(measured / predicted): 0, and 28 %, 65 %, 170 % longer than predicted.
inline constexpr std::array<double, 4> kMissingTimes = {0, 0.25, 0.5, 1.0};
using MissingWeights = std::array<double, kMissingTimes.size()>;

// Factors by class on the logarithm's interval, from this number of given steps on: what sources needed that no fit had seen.
struct Widening {
  std::size_t given = 0;
  std::array<double, kStepClasses> factor{};
};

struct UncertaintyPrior {
  Sensitivity spread{};           // standard deviation of a direction between sources
  double block_spread = 0;        // of blocks within a source
  std::vector<Weighted> scale;    // factors on these variances; weights sum to 1
  std::vector<Weighted> scatter;  // standard deviations of steps about their block; weights sum to 1
  std::array<MissingWeights, kStepClasses> missing{};
  std::vector<Widening> widening;  // ascending, the first without given steps; empty: none
  int sources = 0, steps = 0;      // from which it was learnt
};

// A measured step, or with a `scatter` of its own a measurement that is no step: products, a collective. That has no block and no
// missing time.
struct ComparedStep : StepTraits {
  double off = 0;      // ln(measured / predicted)
  double scatter = 0;  // standard deviation of `off`; 0: a step, whose scatter is the source's
  bool is_step() const { return scatter == 0; }
};

double widening_with(const std::vector<Widening>& widening, std::size_t given, StepClass of);

// A mixture of normal distributions of ln(measured / predicted).
class StepDistribution {
 public:
  struct Normal {
    double weight = 0, mean = 0, deviation = 1;
  };
  StepDistribution(std::vector<Normal> parts, double widening);

  double below(double off) const;        // the share of steps with less
  double quantile(double share) const;   // 0 < share < 1; of the widened distribution
  double log_density(double off) const;  // natural logarithm
  double variance() const;
  StepDistribution widened(double factor) const;  // once more

 private:
  double narrow_quantile(double share) const;

  std::vector<Normal> parts_;
  double widening_, median_;
};

// Seconds that 10, 50 and 90 % of steps take at most.
struct Quantiles {
  double p10 = 0, p50 = 0, p90 = 0;
};
Quantiles quantiles_of(double predicted_s, const StepDistribution& distribution);

// Shares of a step's variance by cause: the directions, then blocks, scatter, and missing time. They add up to 1.
using StepCauses = std::array<double, kDirections + 3>;
inline constexpr std::size_t kCauseBlock = kDirections, kCauseScatter = kDirections + 1, kCauseMissing = kDirections + 2;

// The model after measured steps of one source, of which there may be none, for steps of one class.
class StepPosterior {
 public:
  // Keeps a reference to the prior.
  StepPosterior(const UncertaintyPrior& prior, const std::vector<ComparedStep>& given, StepClass of);
  StepPosterior(StepPosterior&&) noexcept;
  ~StepPosterior();

  StepDistribution distribution(const StepTraits& step) const;
  StepDistribution distribution_of(const ComparedStep& measurement) const;  // with its own scatter where it is no step
  StepCauses causes(const StepTraits& step) const;

 private:
  struct Cell;
  StepDistribution distribution(const StepTraits& step, double scatter) const;
  double covariance(const StepTraits& a, const StepTraits& b, bool steps) const;  // at scale 1, without scatter

  const UncertaintyPrior& prior_;
  std::vector<ComparedStep> given_;
  StepClass of_;
  std::vector<Cell> cells_;
};

// Throws InputError with `place` in front for numbers that are none of a prior.
void check_prior(const UncertaintyPrior& prior, const std::string& place);

}  // namespace panpipe
