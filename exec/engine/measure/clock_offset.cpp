#include "exec/engine/measure/clock_offset.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace panpipe::exec {
namespace {

constexpr int kRoundTrips = 32;
// Far from the tags of a step's messages, which count from 0.
constexpr std::uint32_t kAskTag = 0xFFFFFF00U, kAnswerTag = 0xFFFFFF01U;

double take(Transport& transport, int from, std::uint32_t tag, Clock::duration deadline) {
  const PendingPtr pending = transport.receive({{1}, at::kDouble, at::kCPU}, from, tag);
  pending->wait(deadline, "comparing clocks");
  return pending->value.item<double>();
}

void give(Transport& transport, int to, std::uint32_t tag, double value, Clock::duration deadline) {
  transport.send(at::full({1}, value, at::kDouble), to, tag)->wait(deadline, "comparing clocks");
}

ClockReading ask(Transport& transport, const std::function<double()>& now, Clock::duration deadline) {
  ClockReading best;
  best.error = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRoundTrips; ++i) {
    const double sent = now();
    give(transport, 0, kAskTag, sent, deadline);
    const double there = take(transport, 0, kAnswerTag, deadline), back = now();
    if (const double error = (back - sent) / 2; error < best.error) best = {back, (sent + back) / 2 - there, error};
  }
  return best;
}

void answer(Transport& transport, int rank, const std::function<double()>& now, Clock::duration deadline) {
  for (int i = 0; i < kRoundTrips; ++i) {
    take(transport, rank, kAskTag, deadline);
    give(transport, rank, kAnswerTag, now(), deadline);
  }
}

}  // namespace

double offset_at(const ClockReading& first, const ClockReading& last, double at) {
  if (last.at <= first.at) return last.offset;
  const double share = std::clamp((at - first.at) / (last.at - first.at), 0.0, 1.0);
  return first.offset + share * (last.offset - first.offset);
}

std::string this_boot() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

ClockReading read_clock_offset(Transport& transport, const std::string& boot, const std::function<double()>& now,
                               Clock::duration deadline) {
  const std::vector<std::string> boots = transport.all_gather(boot, deadline, "comparing clocks");
  ClockReading mine{now(), 0, 0};
  for (int rank = 1; rank < transport.size(); ++rank) {
    // An unknown boot may be any: its clock is asked for.
    const std::string& other = boots[rank];
    if (!other.empty() && other == boots.front()) continue;
    if (transport.rank() == rank) mine = ask(transport, now, deadline);
    if (transport.rank() == 0) answer(transport, rank, now, deadline);
  }
  return mine;
}

}  // namespace panpipe::exec
