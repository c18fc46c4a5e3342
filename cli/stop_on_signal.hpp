// Ctrl-C as a wish: long work stops, and keeps what it has.
#pragma once

#include <atomic>
#include <csignal>

namespace panpipe::cli {

// Set by a signal, or at the end of the time that was given.
const std::atomic<bool>& stop_requested();

// While it lives Ctrl-C, SIGTERM (a job's time limit) and the end of `time_limit` seconds (0: none) ask the work to stop. A
// second Ctrl-C ends the program.
class StopOnSignal {
 public:
  explicit StopOnSignal(double time_limit = 0);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{}, alarm_{};
};

}  // namespace panpipe::cli
