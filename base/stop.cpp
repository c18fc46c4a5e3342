#include "base/stop.hpp"

namespace panpipe {
namespace {
thread_local const std::atomic<bool>* flag_of_thread = nullptr;
}  // namespace

StopScope::StopScope(const std::atomic<bool>* asked) : outer_(flag_of_thread) { flag_of_thread = asked; }

StopScope::~StopScope() { flag_of_thread = outer_; }

const std::atomic<bool>* stop_flag() { return flag_of_thread; }

void throw_if_stopped() {
  if (flag_of_thread != nullptr && flag_of_thread->load(std::memory_order_relaxed)) throw Stopped();
}

}  // namespace panpipe
