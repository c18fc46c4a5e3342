#include "exec/engine/transport/wait_limit.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// Below this a change of the byte counters is our own reading of them.
constexpr std::uint64_t kLeastBytes = 4096;
// Bytes that read() and write() of this process moved: checkpoints and data files, not sockets.
std::uint64_t bytes_moved() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::uint64_t value = 0, sum = 0;
  for (int line = 0; line < 2 && file >> key >> value; ++line) sum += value;  // rchar, wchar
  return sum;
}

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

ProcessWork::ProcessWork() : cpu_(process_cpu_time()), sampled_(Steady::now()), moved_(bytes_moved()) {}

bool ProcessWork::since_last() {
  const ProcessWork before = std::exchange(*this, {});
  const double share =
      std::chrono::duration<double>(cpu_ - before.cpu_) / std::chrono::duration<double>(sampled_ - before.sampled_);
  return share > kIdleShare || moved_ > before.moved_ + kLeastBytes;
}

void Pauses::next() {
  constexpr Steady::duration kLongest = 1ms;
  std::this_thread::sleep_for(std::min((Steady::now() - since_) / 20, kLongest));
}

}  // namespace panpipe::exec
