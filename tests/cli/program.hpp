// Runs the built programs as a user would.
#pragma once

#include <string>

#include "tests/temporary_folder.hpp"

namespace panpipe::test {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs `panpipe ARGUMENTS` through the shell, from the source folder, without a terminal.
// Standard output goes to `out`, or is caught in the outcome.
Outcome panpipe(const std::string& arguments, const std::string& out = "");
// What it prints where it succeeds; the test fails where it does not.
std::string answer_of(const std::string& arguments);
// What it writes to standard error where the input is wrong, and nothing else.
std::string refusal_of(const std::string& arguments);
// The same with shell text in front ("PANPIPE_DATA=/tmp", "cat x.yaml |").
Outcome panpipe_after(const std::string& before, const std::string& arguments);
// On a terminal of so many columns, with these variables in its environment ("TERM=dumb"); what it shows is in `out`.
Outcome panpipe_on_terminal(const std::string& arguments, int columns, const std::string& variables = "");
// A new, empty folder that lives until the test program ends.
std::string temporary_folder();

}  // namespace panpipe::test
