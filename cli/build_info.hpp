// What this program was built with.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace panpipe::cli {

using NamesAndValues = std::vector<std::pair<std::string, std::string>>;

// Libraries that take part in a prediction and whose versions are known here: results name them.
NamesAndValues libraries();

// Build type and compiler, the parts that a build may lack, the libraries.
NamesAndValues build_info();

// "panpipe 0.1.0", then a line for each of these: what `panpipe --version` prints.
std::string version_text();

}  // namespace panpipe::cli
