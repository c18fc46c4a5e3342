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

// A JSON text for a script in a page: none of its texts ends the script.
std::string script_json(std::string json);

// Base64, RFC 4648.
std::string base64(const std::string& bytes);

}  // namespace panpipe::present
