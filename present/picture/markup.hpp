// Text and numbers for SVG and HTML.
#pragma once

#include <string>

namespace panpipe {

// Escapes text for use as content and inside double quotes. Control characters are removed.
std::string escaped(const std::string& text);

// Pixels with at most one decimal, without trailing zeros.
std::string px(double value);

}  // namespace panpipe
