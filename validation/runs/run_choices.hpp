// What a row says of its framework beyond a preset's name: single choices, in the keys and words of a scenario's `framework:`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "validation/runs/run_row.hpp"

namespace panpipe {

// Columns that are keys of `framework:`, in the order in which scenarios state them.
const std::vector<std::string>& framework_columns();

// The attention kernel that a cell describes in the words of its source ("flash-attn 2", "SDPA flash", "unfused, fused softmax"):
// a word of the key `attention`, or nothing where the cell names no kernel. `gpu` decides where a library does.
std::string attention_of_words(const std::string& words, const std::string& gpu);

// Key and word of each choice that the row states; `told` says which of them stand in the words of the source.
std::vector<std::pair<std::string, std::string>> framework_choices(const RunRow& row, std::vector<std::string>& told);

}  // namespace panpipe
