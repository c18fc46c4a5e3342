// Characters of texts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace panpipe {

// Bytes of the character of UTF-8 at `at`; 0 where there is none (overlong forms, surrogates and values above U+10FFFF included).
std::size_t utf8_length(std::string_view text, std::size_t at);

// With blanks where control characters are, those of U+0080 to U+009F too: a terminal would obey them. `kept` stay.
std::string without_controls(std::string text, std::string_view kept = "");

// ASCII letters in lower case; others stay.
std::string lower_case(std::string_view text);

}  // namespace panpipe
