// The table of a result in the style of where it is shown.
#pragma once

#include <string>

#include "base/text/text_style.hpp"
#include "present/result/result_plan.hpp"

namespace panpipe {

// As to_table() of result.hpp. Where the style is narrow, bars are shorter and the least telling columns are left out. A sample
// of a model that reads text has so many tokens; 0 = it reads none.
std::string to_table(const Timeline& timeline, const Metrics& metrics, const TextStyle& style, int tokens_per_sample);

}  // namespace panpipe
