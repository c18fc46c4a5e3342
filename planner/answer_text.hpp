// The text of an answer in the style of the output.
#pragma once

#include <string>

#include "base/text/text_style.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

// For people. `tokens_per_sample` is 0 if the model reads no tokens.
std::string to_table(const Answer& answer, const TextStyle& style, int tokens_per_sample);

}  // namespace panpipe::planner
