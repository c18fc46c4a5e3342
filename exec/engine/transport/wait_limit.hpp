// When a wait has lasted too long. Not the length of the wait counts but the time in which nobody made progress: a peer may
// compute for minutes, and processor time says that it does.
#pragma once

#include <chrono>

namespace panpipe::exec {

// Below this share of one core a process is idle: its background threads wake now and then.
constexpr double kIdleShare = 0.05;

inline double in_seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Processor time of all threads of this process.
std::chrono::nanoseconds process_cpu_time();

// Asked again and again with a counter of processor time, tells when it has stood still for the deadline.
class Quiet {
 public:
  explicit Quiet(std::chrono::steady_clock::duration deadline);
  bool over(std::chrono::nanoseconds used);
  // How long to sleep between two questions.
  std::chrono::steady_clock::duration slice() const { return slice_; }

 private:
  std::chrono::steady_clock::duration deadline_, slice_;
  std::chrono::steady_clock::time_point since_, sampled_;
  std::chrono::nanoseconds used_{-1};
};

// Between two questions to somebody who tells nothing by himself, such as a device: sleeps for a twentieth of the time since the
// first question, so that the answer comes at most so much late, and a millisecond at the longest.
class Pauses {
 public:
  void next();

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace panpipe::exec
