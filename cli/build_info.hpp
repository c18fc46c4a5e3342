// The configuration and libraries of this build.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace panpipe::cli {

using NamesAndValues = std::vector<std::pair<std::string, std::string>>;

// Libraries that affect predictions and whose versions are known; results name them.
NamesAndValues libraries();

// Build type and compiler, the optional parts, the libraries.
NamesAndValues build_info();

// The output of `panpipe --version`: "panpipe 0.1.0", then a line for each entry of build_info().
std::string version_text();

}  // namespace panpipe::cli
