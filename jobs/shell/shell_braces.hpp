// Brace expansion: a{b,c}d, {1..4}.
#pragma once

#include <string>
#include <vector>

namespace panpipe::jobs {

// The words that a word without quotes stands for; empty: it holds no braces that expand.
std::vector<std::string> expanded_braces(const std::string& word);

}  // namespace panpipe::jobs
