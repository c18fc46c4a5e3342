// What a rank's exception means to the user.
#pragma once

#include <exception>
#include <string>

#include "base/error.hpp"

namespace panpipe::exec {

class Transport;

struct Failure {
  ExitCode code = ExitCode::Bug;
  std::string text;   // without a final newline
  bool peer = false;  // only the consequence of another rank's failure
};

// `rank` < 0: no rank yet. `action`: what the rank was doing, as it told its transport last.
Failure describe_failure(const std::exception_ptr& error, int rank, const std::string& action);

// Ends the run for the other ranks too. `failure` is what describe_failure() made of the error.
void tell_others(const std::exception_ptr& error, const Failure& failure, Transport& transport);

// An end that was asked for (Ctrl-C) is no failure.
bool is_stop(const std::exception_ptr& error, std::string& sentence);

}  // namespace panpipe::exec
