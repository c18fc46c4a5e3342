// The text of an answer in the style of the output.
#pragma once

#include <string>

#include "base/text/text_style.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

// For people, in about ten lines: yours, the best plan and the next best.
std::string to_summary(const Answer& answer, const TextStyle& style);

// With stages, both figures of each plan, and what was searched. `tokens_per_sample` is 0 if the model reads no tokens.
std::string to_table(const Answer& answer, const TextStyle& style, double tokens_per_sample);

}  // namespace panpipe::planner
