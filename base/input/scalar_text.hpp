// Text as a YAML scalar, for the files that are written.
#pragma once

#include <string>

namespace panpipe {

// In double quotes, as JSON has it: read back, it is the same text.
std::string quoted_scalar(const std::string& text);

// As it stands where YAML reads it back as the same text, else in quotes.
std::string scalar_text(const std::string& text);

}  // namespace panpipe
