// Text inside SVG and HTML.
#pragma once

#include <string>

namespace panpipe {

// Safe as text and inside double quotes. Control characters are left out.
std::string escaped(const std::string& text);

// Pixels, to the tenth, without trailing zeros.
std::string px(double value);

}  // namespace panpipe
