#include "exec/engine/run/stop.hpp"

#include <atomic>

namespace panpipe::exec {
namespace {

std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace

void request_stop() noexcept { stop_wanted.store(true, std::memory_order_relaxed); }
bool stop_requested() noexcept { return stop_wanted.load(std::memory_order_relaxed); }
void clear_stop() noexcept { stop_wanted.store(false, std::memory_order_relaxed); }

}  // namespace panpipe::exec
