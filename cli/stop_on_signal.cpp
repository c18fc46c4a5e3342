#include "cli/stop_on_signal.hpp"

#include <sys/time.h>

#include <cmath>

namespace panpipe::cli {
namespace {

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void request_stop(int) { stop_asked.store(true, std::memory_order_relaxed); }

void set_timer(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

const std::atomic<bool>& stop_requested() { return stop_asked; }

StopOnSignal::StopOnSignal(double time_limit) {
  stop_asked = false;
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
  sigaction(SIGALRM, &action, &alarm_);
  set_timer(time_limit);
}

StopOnSignal::~StopOnSignal() {
  set_timer(0);
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGALRM, &alarm_, nullptr);
}

}  // namespace panpipe::cli
