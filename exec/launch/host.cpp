#include "exec/launch/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/files/input_registry.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

template <class Value>
void at_most(std::optional<Value>& limit, Value value) {
  limit = limit ? std::min(*limit, value) : value;
}

// The first two words of a file; empty where there is none.
std::pair<std::string, std::string> words_of(const fs::path& file) {
  std::ifstream stream(file);
  std::pair<std::string, std::string> words;
  stream >> words.first >> words.second;
  return words;
}

std::optional<double> number(const std::string& text) {
  std::istringstream stream(text);
  double value = 0;
  return stream >> value && stream.eof() && value > 0 ? std::optional(value) : std::nullopt;  // "max", -1: no limit
}

// "cpu,cpuacct" names cpu.
bool names(const std::string& list, const std::string& name) {
  std::istringstream stream(list);
  for (std::string each; std::getline(stream, each, ',');)
    if (each == name) return true;
  return false;
}

void take_memory(const fs::path& file, GroupLimits& limits) {
  if (const auto bytes = number(words_of(file).first); bytes && *bytes < 0x1p62)  // version 1 writes a huge number for none
    at_most(limits.memory, static_cast<std::int64_t>(*bytes));
}

void take_quota(const std::string& quota, const std::string& period, GroupLimits& limits) {
  const auto time = number(quota), of = number(period);
  if (time && of) at_most(limits.cores, *time / *of);
}

// The group's folder and all above it, up to the mount. Inside a container the path may be the host's: then only the mount
// exists.
template <class Take>
void up_to(const fs::path& mount, const std::string& group, Take take) {
  fs::path folder = mount / fs::path(group).relative_path();
  for (std::error_code error; folder != mount && folder.has_relative_path(); folder = folder.parent_path())
    if (fs::is_directory(folder, error)) take(folder);
  take(mount);
}

}  // namespace

GroupLimits group_limits(const std::string& membership, const std::string& root) {
  GroupLimits limits;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // "0::/a/b", "4:memory:/a/b", "3:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      up_to(root, group, [&](const fs::path& folder) {
        take_memory(folder / "memory.max", limits);
        const auto [quota, period] = words_of(folder / "cpu.max");
        take_quota(quota, period, limits);
      });
    if (names(controllers, "memory"))
      up_to(fs::path(root) / "memory", group,
            [&](const fs::path& folder) { take_memory(folder / "memory.limit_in_bytes", limits); });
    if (names(controllers, "cpu"))
      up_to(fs::path(root) / "cpu", group, [&](const fs::path& folder) {
        take_quota(words_of(folder / "cpu.cfs_quota_us").first, words_of(folder / "cpu.cfs_period_us").first, limits);
      });
  }
  return limits;
}

namespace {

GroupLimits own_limits() { return group_limits(input_bytes("/proc/self/cgroup").value_or(""), "/sys/fs/cgroup"); }

}  // namespace

int host_cores() {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cores = std::clamp(CPU_COUNT(&mask), 1, cores);
  // A share of a core counts as one.
  if (const auto quota = own_limits().cores) cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(*quota))));
  return cores;
}

double host_load() {
  std::ifstream file("/proc/loadavg");  // "0.20 0.18 0.12 1/80 11206": the fourth begins with those of now, this one included
  double minute = 0, five = 0, fifteen = 0, now = 0;
  return file >> minute >> five >> fifteen >> now ? std::max(0.0, std::min(minute, now - 1)) : 0;
}

std::int64_t host_memory() {
  const std::int64_t machine = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  const auto limit = own_limits().memory;
  return limit ? std::min(machine, *limit) : machine;
}

std::int64_t profile_window(int ranks) { return host_memory() / 4 / std::max(1, ranks); }

}  // namespace panpipe::exec
