// Runs a verb or a part of the executor for `panpipe selftest` in its own process, so that a crash becomes a finding.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace panpipe::cli {

struct ChildEnd {
  int exit_code = 0;      // 128 + the signal if a signal ended it
  bool too_long = false;  // it was ended after its time limit
  bool too_much = false;  // it was ended because it wrote without end
  std::string out, err;
  bool done() const { return exit_code == 0; }
};

// Ctrl-C was pressed, and all started processes have been ended.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("stopped as asked") {}
};

// Runs `body` in a forked process, whose exit code is the result of `body`, and waits for it. Ends it after `seconds`, or after
// 64 MiB of output. Calls `pulse` every tenth of a second meanwhile. Throws Interrupted when a stop is requested
// (stop_on_signal.hpp). The child and its children do not outlive this process.
ChildEnd run_child(const std::function<int()>& body, double seconds, const std::function<void()>& pulse);

// A body for run_child: this program with a verb and its arguments.
std::function<int()> this_program(const char* verb, std::vector<std::string> arguments);

// The last output lines of a child, joined into one line for a finding. A verb's error sentence is its last line.
std::string last_words(const ChildEnd& end);

}  // namespace panpipe::cli
