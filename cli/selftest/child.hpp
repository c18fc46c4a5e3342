// A verb or a part of the executor, run by `panpipe selftest` as a process of its own: a crash there is a finding here.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace panpipe::cli {

struct ChildEnd {
  int exit_code = 0;      // 128 + the signal where one ended it
  bool too_long = false;  // it was ended after its time
  std::string out, err;
  bool done() const { return exit_code == 0; }
};

// Ctrl-C: what was started has been ended.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("stopped as asked") {}
};

// Runs `body` in a forked process, its exit code being what `body` returns, and waits for it. After `seconds` it is ended.
// `pulse` is called every tenth of a second meanwhile. Throws Interrupted when a stop is requested (stop_on_signal.hpp). Neither
// it nor what it starts outlives this process.
ChildEnd run_child(const std::function<int()>& body, double seconds, const std::function<void()>& pulse);

// For run_child: this program with other arguments.
std::function<int()> this_program(std::vector<std::string> arguments);

// The last lines that a child said, in one line for a finding: the sentence of a verb's error is its last.
std::string last_words(const ChildEnd& end);

}  // namespace panpipe::cli
