// Patterns of a shell: * ? [a-z] and \ before a character that is itself.
#pragma once

#include <string_view>

namespace panpipe::jobs {

// Whether all of `text` matches. Bytes are compared, whatever the locale: a script means the same on the command line, in Python
// and on the page. In time of the product of the lengths, where brackets are closed.
bool matches_pattern(std::string_view text, std::string_view pattern);

// True for a character by its name, [[.hyphen.]], which matches_pattern does not know.
bool names_character(std::string_view pattern);

// The same, and for ?(a|b) and its like.
bool is_extended_pattern(std::string_view pattern);

}  // namespace panpipe::jobs
