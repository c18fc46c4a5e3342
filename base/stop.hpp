// Long work that its caller may stop. The work checks from time to time whether it shall go on.
#pragma once

#include <atomic>
#include <stdexcept>

namespace panpipe {

// Thrown by work that its caller stopped. It means neither success nor failure of the work.
class Stopped : public std::runtime_error {
 public:
  Stopped() : std::runtime_error("stopped") {}
};

// During its lifetime the work of this thread, and of the threads that parallel_for() makes for it, stops once `asked` is set. If
// `asked` is null, the work goes on to its end. Scopes nest.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* asked);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

// The flag of this thread's innermost StopScope; null without one.
const std::atomic<bool>* stop_flag();

// Throws Stopped once the caller has stopped the work. Takes a few nanoseconds.
void throw_if_stopped();

}  // namespace panpipe
