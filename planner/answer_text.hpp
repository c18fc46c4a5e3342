// An answer in the style of where it is shown.
#pragma once

#include <string>

#include "base/text/text_style.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

// As to_table() of planner.hpp. A sample of a model that reads text has so many tokens; 0 = it reads none.
std::string to_table(const Answer& answer, const TextStyle& style, int tokens_per_sample);

}  // namespace panpipe::planner
