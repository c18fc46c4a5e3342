// Ctrl-C as a request: long work stops and keeps its results.
#pragma once

#include <atomic>
#include <csignal>

namespace panpipe::cli {

// Set by a signal, or when the given time is over.
const std::atomic<bool>& stop_requested();

// During its lifetime Ctrl-C, SIGTERM (a job's time limit) and the end of `time_limit` seconds (0: none) request a stop. A second
// Ctrl-C ends the program.
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
