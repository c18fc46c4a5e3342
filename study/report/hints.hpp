// Suggestions for a shorter step, as sentences with numbers from the result.
#pragma once

#include <string>
#include <vector>

#include "present/result/read_result.hpp"
#include "study/report/traffic.hpp"

namespace panpipe::study {

struct Hint {
  double seconds = 0;  // upper bound on the gain; hints without one (memory) come last
  std::string text;
};

// Largest first. Gains under a hundredth of the step are left out. Each gain is a separate upper bound; they do not add up.
std::vector<Hint> hints_for(const present::ResultDocument& result, const Traffic& traffic);

}  // namespace panpipe::study
