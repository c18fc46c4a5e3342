// The table of a result in the style of the output.
#pragma once

#include <string>

#include "base/text/text_style.hpp"
#include "present/result/result_plan.hpp"

namespace panpipe::present {

// Like to_table() of result.hpp. In a narrow style bars are shorter and the least important columns are dropped.
// `tokens_per_sample` is 0 if the model reads no tokens.
std::string to_table(const Timeline& timeline, const Metrics& metrics, const TextStyle& style, double tokens_per_sample);

}  // namespace panpipe::present
