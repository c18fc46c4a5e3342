// Long work that its caller may take back: it asks now and then whether it is still wanted.
#pragma once

#include <atomic>
#include <stdexcept>

namespace panpipe {

// The work was taken back. It has no answer, and says nothing about the question.
class Stopped : public std::runtime_error {
 public:
  Stopped() : std::runtime_error("stopped") {}
};

// While it lives, work of this thread (and of the threads that parallel_for() makes for it) stops once `asked` is set. Null: it
// goes on to its end. They nest.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* asked);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

// What this thread's innermost StopScope holds; null without one.
const std::atomic<bool>* stop_flag();

// Throws Stopped once the caller has taken the work back. A few nanoseconds.
void throw_if_stopped();

}  // namespace panpipe
