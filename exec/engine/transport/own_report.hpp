// What a rank reports about itself to the watch: its action, whether it waits, its last progress. Thread-safe. No LibTorch here.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/engine/transport/loss_verdict.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {

class OwnReport {
 public:
  // The rank gets on: with another action, or at the begin or the end of a wait.
  void note(const std::optional<std::string>& at, std::optional<bool> waits = std::nullopt);
  void device(const std::string& waits_for, std::vector<Standing> operations);
  // Work of the process since the last call is progress, unless the rank or its device waits. Of one thread.
  void sample();

  RankState now() const;  // all but `through` and `left`
  std::string at() const;

 private:
  mutable std::mutex lock_;
  RankState state_;
  std::chrono::steady_clock::time_point progressed_ = std::chrono::steady_clock::now();
  std::string device_waits_;  // what for
  ProcessWork work_;
};

}  // namespace panpipe::exec
