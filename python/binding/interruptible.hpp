// Long calls that Ctrl-C ends. Python runs the handler of a signal only in its main thread, between two of its own steps.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <functional>

namespace panpipe::python {

namespace nb = nanobind;

// Stops the calls of several threads together.
class StopToken {
 public:
  void stop() { asked_ = true; }
  const std::atomic<bool>& asked() const { return asked_; }

 private:
  std::atomic<bool> asked_{false};
};

// Called without the GIL. If this is the main thread, the work runs in another thread while this one handles signals. An
// exception of a handler, such as KeyboardInterrupt, stops the work (base/stop.hpp) and is thrown after the work has ended. The
// work receives a flag that is also set after `seconds` (0: never), for searches that then answer with their best so far. Work of
// any other thread is not moved; it ends when the StopScope of its caller stops it.
void interruptibly(const std::function<void(const std::atomic<bool>& halt)>& work, double seconds = 0);

void bind_stop(nb::module_& module);

}  // namespace panpipe::python
