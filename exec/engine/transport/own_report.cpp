#include "exec/engine/transport/own_report.hpp"

#include <utility>

namespace panpipe::exec {

using Steady = std::chrono::steady_clock;

void OwnReport::note(const std::optional<std::string>& at, std::optional<bool> waits) {
  const std::lock_guard hold(lock_);
  if (at) state_.at = *at;
  state_.waits = waits.value_or(state_.waits);
  progressed_ = Steady::now();
}

void OwnReport::device(const std::string& waits_for, std::vector<Standing> operations) {
  const std::lock_guard hold(lock_);
  device_waits_ = waits_for;
  state_.operations = std::move(operations);
}

void OwnReport::sample() {
  const bool works = work_.since_last();
  const std::lock_guard hold(lock_);
  if (!state_.waits && device_waits_.empty() && works) progressed_ = Steady::now();
}

RankState OwnReport::now() const {
  const std::lock_guard hold(lock_);
  RankState mine = state_;
  mine.received = Steady::now();
  mine.quiet = mine.received - progressed_;
  if (device_waits_.empty()) return mine;
  mine.waits = true;
  mine.at += ", its GPU waiting for " + device_waits_;
  return mine;
}

std::string OwnReport::at() const {
  const std::lock_guard hold(lock_);
  return state_.at;
}

}  // namespace panpipe::exec
