// What could make a step shorter, as sentences with the numbers that the result itself holds.
#pragma once

#include <string>
#include <vector>

#include "present/result/result_document.hpp"
#include "study/report/traffic.hpp"

namespace panpipe {

struct Hint {
  double seconds = 0;  // at most this much of the step; what has no such figure (memory) stands last
  std::string text;
};

// Largest first. Shares under a hundredth of the step are not mentioned. Each is an upper bound by itself: they do not add up.
std::vector<Hint> hints_for(const ResultDocument& result, const Traffic& traffic);

}  // namespace panpipe
