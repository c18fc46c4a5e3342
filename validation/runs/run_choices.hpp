// The framework choices of a row beyond a preset's name, as keys and values of a scenario's `framework:`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "validation/runs/run_row.hpp"

namespace panpipe::validation {

// Columns that are keys of `framework:`, in the order in which scenarios state them.
const std::vector<std::string>& framework_columns();

// Translates a source's description of its attention kernel ("flash-attn 2", "SDPA flash", "unfused, fused softmax") to a value
// of the key `attention`; empty if it names no kernel. `gpu` decides for libraries that choose by device.
std::string attention_of_words(const std::string& words, const std::string& gpu);

// Key and value of each choice that the row states; `reported` receives those described in the source's own words.
std::vector<std::pair<std::string, std::string>> framework_choices(const RunRow& row, std::vector<std::string>& reported);

}  // namespace panpipe::validation
