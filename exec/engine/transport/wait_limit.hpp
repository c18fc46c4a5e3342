// Decides when a wait has lasted too long. The limit applies to time without progress, not to the length of the wait, because a
// peer may compute for minutes; its processor time shows that it does.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace panpipe::exec {

// Below this share of one core a process is idle; its background threads wake now and then.
constexpr double kIdleShare = 0.05;

inline std::int64_t in_milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}
inline double in_seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// What a rank that waits knows of the others, and they of it: the watch of processes, or of threads.
class FailureDetector {
 public:
  virtual ~FailureDetector() = default;
  virtual void set_action(const std::string& action) = 0;
  // Marks the time in which the rank waits, with the awaited event: another rank's, or of its own device.
  virtual void begin_wait(const std::string& what, bool for_another) = 0;
  // `came`: the event; else the rank gave up, and the others shall read for what it waited.
  virtual void end_wait(bool came) = 0;
  virtual void progress() = 0;  // a message arrived, or the device is computing
  // That no rank has made progress for the deadline, for the message of a wait that ends by it, with what the others do; else
  // empty.
  virtual std::string standstill(std::chrono::steady_clock::duration deadline) = 0;
};

// Processor time of all threads of this process.
std::chrono::nanoseconds process_cpu_time();

// Polled with a counter of processor time, reports when the counter has stood still for the deadline.
class Quiet {
 public:
  explicit Quiet(std::chrono::steady_clock::duration deadline);
  bool over(std::chrono::nanoseconds used);
  // Time to sleep between two polls.
  std::chrono::steady_clock::duration slice() const { return slice_; }

 private:
  std::chrono::steady_clock::duration deadline_, slice_;
  std::chrono::steady_clock::time_point since_, sampled_;
  std::chrono::nanoseconds used_{-1};
};

// Work of this process, by its processor time and by the bytes that it reads and writes.
class ProcessWork {
 public:
  ProcessWork();
  bool since_last();  // has it worked since the last call?

 private:
  std::chrono::nanoseconds cpu_;
  std::chrono::steady_clock::time_point sampled_;
  std::uint64_t moved_;
};

// Pauses between polls of a source without notification, such as a device. Sleeps for a twentieth of the time since the first
// poll, so that the answer is at most that much late, and for a millisecond at most.
class Pauses {
 public:
  void next();

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace panpipe::exec
