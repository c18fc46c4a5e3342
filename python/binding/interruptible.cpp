#include "python/binding/interruptible.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/stop.hpp"

namespace panpipe::python {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{50};  // so late a signal is seen at most

// Python's main thread is the process's, also after fork().
bool is_main_thread() { return getpid() == gettid(); }

class Watched {
 public:
  explicit Watched(double seconds) : outer_(stop_flag()) {
    if (seconds > 0) limit_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void run(const std::function<void(const std::atomic<bool>&)>& work) {
    std::thread worker([&] {
      const StopScope scope(&stop_);
      try {
        work(halt_);
      } catch (...) {
        fault_ = std::current_exception();
      }
      const std::lock_guard hold(lock_);
      done_ = true;
      ended_.notify_one();
    });
    wait();
    worker.join();
    if (interrupt_) std::rethrow_exception(interrupt_);
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  void wait() {
    std::unique_lock hold(lock_);
    while (!ended_.wait_until(hold, std::min(Clock::now() + kPoll, limit_), [&] { return done_; })) {
      hold.unlock();
      look();
      hold.lock();
    }
  }

  void look() {
    if (Clock::now() >= limit_) {
      halt_ = true;
      limit_ = Clock::time_point::max();
    }
    if (outer_ != nullptr && outer_->load()) stop();
    const nb::gil_scoped_acquire gil;
    if (interrupt_ || PyErr_CheckSignals() == 0) return;
    interrupt_ = std::make_exception_ptr(nb::python_error());
    stop();
  }

  void stop() { stop_ = halt_ = true; }

  const std::atomic<bool>* outer_;
  Clock::time_point limit_ = Clock::time_point::max();
  std::atomic<bool> stop_{false}, halt_{false};
  std::exception_ptr fault_, interrupt_;
  std::mutex lock_;
  std::condition_variable ended_;
  bool done_ = false;
};

}  // namespace

void interruptibly(const std::function<void(const std::atomic<bool>& halt)>& work, double seconds) {
  if (seconds > 0 || is_main_thread()) {
    Watched(seconds).run(work);
    return;
  }
  static const std::atomic<bool> never{false};
  work(stop_flag() != nullptr ? *stop_flag() : never);
}

void bind_stop(nb::module_& module) {
  nb::class_<StopToken>(module, "StopToken", "Ends calls of other threads that were given it.")
      .def(nb::init<>())
      .def("stop", &StopToken::stop);
}

}  // namespace panpipe::python
