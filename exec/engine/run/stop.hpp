// A request to end a run early. Signal handlers set it, and every rank checks it between steps.
#pragma once

#include <stdexcept>

namespace panpipe::exec {

// Process-wide. request_stop() is safe in a signal handler.
void request_stop() noexcept;
bool stop_requested() noexcept;
void clear_stop() noexcept;  // for tests, and for a second run in one process

// Thrown by run_rank on every rank once all have agreed on the last step and the checkpoint, if requested, is written. Not a
// fault: what() is the sentence for the user.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace panpipe::exec
