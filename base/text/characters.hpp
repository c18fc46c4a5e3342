// UTF-8, control characters and letter case.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

// Length in bytes of the UTF-8 character at `at`; 0 for an invalid one (overlong forms, surrogates and values above U+10FFFF
// included).
std::size_t utf8_length(std::string_view text, std::size_t at);

// Replaces control characters by blanks, including U+0080 to U+009F, since a terminal would obey them. Those in `kept` stay.
std::string without_controls(std::string text, std::string_view kept = "");

// ASCII letters in lower case; other characters stay.
std::string lower_case(std::string_view text);

// The parts between the separators: one more than there are separators.
std::vector<std::string> split_text(std::string_view text, char separator);

}  // namespace panpipe
