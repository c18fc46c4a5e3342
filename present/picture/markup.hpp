// Text inside SVG and HTML.
#pragma once

#include <string>

namespace panpipe {

// Safe as text and inside double quotes. Control characters are left out.
std::string escaped(const std::string& text);

// Pixels, to the tenth, without trailing zeros.
std::string px(double value);

// An SVG as an address, for the src attribute of an image: its own style stays inside it.
std::string image_address(const std::string& svg);

}  // namespace panpipe
