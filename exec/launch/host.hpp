// The part of the host that this process may use, limited by its affinity and control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace panpipe::exec {

// Number of cores, at least 1.
int host_cores();
// Processes of the whole machine that run or wait for a core, without this one: the average of the last minute, or those of this
// moment, if they are fewer (what this user has just run has ended). 0 if unknown.
double host_load();
// Memory in bytes.
std::int64_t host_memory();
// Default of `--window`: bytes of the units that each rank of a profile holds at once. All ranks together use a quarter of the
// memory.
std::int64_t profile_window(int ranks);

// Limits set by control groups; nullopt without a limit.
struct GroupLimits {
  std::optional<double> cores;
  std::optional<std::int64_t> memory;
};
// `membership` as in /proc/self/cgroup, `root` as /sys/fs/cgroup; version 2, version 1, or both. The limits of all groups above
// apply too. Unreadable files set no limit.
GroupLimits group_limits(const std::string& membership, const std::string& root);

}  // namespace panpipe::exec
