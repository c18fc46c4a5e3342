// Words of a command line as a shell would pass them: quotes, backslashes, comments and line ends; nothing is expanded or run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

struct ShellWord {
  std::string text;
  int line = 1, column = 1;  // where it starts
  bool expands = false;      // it holds a `$` or a backquote that a shell would expand: the value is not known
  bool after_array = false;  // an array of bash begins or ends in front of it: it belongs to no option before
};

// Arrays of bash are no words of their own: `NAME=(`, `NAME+=(` and the `)` that closes them are dropped.
// Throws InputError with a place for a quote that is not closed for bytes that are no UTF-8 text, and for more than 1 MiB.
std::vector<ShellWord> shell_words(std::string_view text, const std::string& name);

}  // namespace panpipe::jobs
