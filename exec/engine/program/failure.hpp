// Translates a rank's exception for the user.
#pragma once

#include <exception>
#include <string>

#include "base/error.hpp"

namespace panpipe::exec {

class Transport;

struct Failure {
  ExitCode code = ExitCode::Bug;
  std::string text;   // without a final newline
  bool peer = false;  // only a consequence of another rank's failure
  bool stop = false;  // requested (Ctrl-C): not a failure
};

// `rank` < 0: no rank yet. `action`: the rank's last action, as reported to its transport.
Failure describe_failure(const std::exception_ptr& error, int rank, const std::string& action);

// Ends the run on the other ranks. `failure` is the result of describe_failure() for the error.
void report_others(const std::exception_ptr& error, const Failure& failure, Transport& transport);

}  // namespace panpipe::exec
