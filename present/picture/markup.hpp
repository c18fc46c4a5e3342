// Text and numbers for SVG and HTML.
#pragma once

#include <string>

namespace panpipe::present {

// Escapes text for use as content and inside double quotes. Control characters are removed.
std::string escaped(const std::string& text);

// Pixels with at most one decimal, without trailing zeros.
std::string px(double value);

// An SVG as an address, for the src attribute of an image: its own style stays inside it.
std::string image_address(const std::string& svg);

}  // namespace panpipe::present
