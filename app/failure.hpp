// What a caught failure is in the words that every front end shows.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace panpipe::app {

struct Failure {
  ExitCode code{};
  std::string text;                     // complete, without a final newline
  std::vector<Diagnostic> diagnostics;  // of wrong input
};

// `error` must hold an exception.
Failure failure_of(const std::exception_ptr& error);

}  // namespace panpipe::app
