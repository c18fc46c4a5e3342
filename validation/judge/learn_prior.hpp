// Learns how sources of measurements differ from predictions (costmodel/prediction/uncertainty.hpp) from compared steps, by
// expectation maximisation. Each source counts once.
#pragma once

#include <string>
#include <vector>

#include "costmodel/prediction/uncertainty.hpp"

namespace panpipe::validation {

// Steps of one source: one publisher's machine and software.
struct SourceSteps {
  std::string source;
  std::string family;  // sources that share habits: they are left out together
  std::vector<ComparedStep> steps;
};

// The spreads that are assumed before any source is seen, each with the weight of a few sources.
UncertaintyPrior prior_before_learning();

UncertaintyPrior learn_prior(const std::vector<SourceSteps>& sources);

}  // namespace panpipe::validation
