// The share of its host that this process may use: no more than its affinity and its control groups allow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace panpipe::exec {

// At least 1.
int host_cores();
// Bytes.
std::int64_t host_memory();
// Bytes of the units that a profile holds at once in each of its ranks, where `--window` does not say: a quarter of the memory in
// all.
std::int64_t profile_window(int ranks);

// The limits that control groups set; absent where they set none.
struct GroupLimits {
  std::optional<double> cores;
  std::optional<std::int64_t> memory;
};
// `membership` as in /proc/self/cgroup, `root` as /sys/fs/cgroup: version 2, version 1, or both. A group is bound by all those
// above it. What cannot be read sets no limit.
GroupLimits group_limits(const std::string& membership, const std::string& root);

}  // namespace panpipe::exec
