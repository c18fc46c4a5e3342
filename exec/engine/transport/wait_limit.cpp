#include "exec/engine/transport/wait_limit.hpp"

#include <algorithm>
#include <ctime>
#include <thread>

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

}  // namespace

std::chrono::nanoseconds process_cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Quiet::Quiet(Steady::duration deadline)
    : deadline_(deadline),
      slice_(std::clamp<Steady::duration>(deadline / 10, 1ms, 100ms)),
      since_(Steady::now()),
      sampled_(since_) {}

bool Quiet::over(std::chrono::nanoseconds used) {
  const auto now = Steady::now();
  if (used_ < 0ns) used_ = used;
  if (now - sampled_ >= slice_) {
    const auto share = std::chrono::duration<double>(used - used_) / std::chrono::duration<double>(now - sampled_);
    if (share > kIdleShare) since_ = now;
    used_ = used;
    sampled_ = now;
  }
  return now - since_ >= deadline_;
}

void Pauses::next() {
  constexpr Steady::duration kLongest = 1ms;
  std::this_thread::sleep_for(std::min((Steady::now() - since_) / 20, kLongest));
}

}  // namespace panpipe::exec
