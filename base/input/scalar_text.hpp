// Writes text as a YAML scalar.
#pragma once

#include <string>

namespace panpipe {

// In double quotes, with JSON's escapes. Reading it back gives the same text.
std::string quoted_scalar(const std::string& text);

// Without quotes when YAML reads that back as the same text, else quoted.
std::string scalar_text(const std::string& text);

}  // namespace panpipe
