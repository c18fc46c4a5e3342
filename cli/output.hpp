// Where a verb's words go: data to standard output, and colour only for people.
#pragma once

#include <string>

#include "costmodel/base/standard_output.hpp"

namespace panpipe::cli {

using panpipe::print;

// What to do where the file of -o cannot be written.
inline constexpr const char* kAdvice = "choose another file with -o";

// Whether standard output is a terminal that wants colour (NO_COLOR unset).
bool color_wanted();

}  // namespace panpipe::cli
