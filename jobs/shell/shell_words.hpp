// Splits a command line into words like a shell: quotes, backslashes, comments and line ends. Nothing is expanded or run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

struct ShellWord {
  std::string text;
  int line = 1, column = 1;  // where it starts
  bool expands = false;      // contains a `$` or a backquote that a shell would expand, so the value is unknown
  bool after_array = false;  // a bash array begins or ends before it, so it belongs to no earlier option
};

// Bash arrays do not count as words: `NAME=(`, `NAME+=(` and the closing `)` are dropped. Throws InputError with a place for an
// unclosed quote, for bytes that are not UTF-8 text, and for more than 1 MiB.
std::vector<ShellWord> shell_words(std::string_view text, const std::string& name);

}  // namespace panpipe::jobs
