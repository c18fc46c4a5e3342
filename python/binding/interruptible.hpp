// Long calls that Ctrl-C ends: Python runs what a signal asks for only in its main thread, and only between two of its own steps.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <functional>

namespace panpipe::python {

namespace nb = nanobind;

// Shared by calls of several threads, for whoever waits for them.
class StopToken {
 public:
  void stop() { asked_ = true; }
  const std::atomic<bool>& asked() const { return asked_; }

 private:
  std::atomic<bool> asked_{false};
};

// Called without the GIL. Work on the main thread goes on in another one, while this one looks after signals: an exception of a
// signal's handler (KeyboardInterrupt, say) ends the work (base/stop.hpp), and is thrown once it has ended. The work is handed a
// flag that is also set when `seconds` are over (0: never), for searches that then answer with what they have. Work of other
// threads is not moved: it ends when the StopScope of its caller says so.
void interruptibly(const std::function<void(const std::atomic<bool>& halt)>& work, double seconds = 0);

void bind_stop(nb::module_& module);

}  // namespace panpipe::python
