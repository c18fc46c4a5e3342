#include "tests/stand_in_gpu/cuda/counts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

struct Counts {
  std::mutex lock;
  std::map<std::string_view, long> of;
};
Counts& counts() {
  static auto* all = new Counts;  // outlives every thread
  return *all;
}

bool counting() {
  static const bool asked = !text_setting("STAND_IN_COUNTS").empty();
  return asked;
}

// One line of JSON per process, appended in one write: several processes share the file.
__attribute__((destructor)) void report_counts() {
  if (!counting()) return;
  Counts& all = counts();
  const std::lock_guard hold(all.lock);
  if (all.of.empty()) return;  // no CUDA was used here
  std::string line = "{\"rank\": " + std::to_string(world_rank()) + ", \"process\": " + std::to_string(getpid());
  for (const auto& [what, number] : all.of) line += ", \"" + std::string(what) + "\": " + std::to_string(number);
  line += "}\n";
  const int file = open(text_setting("STAND_IN_COUNTS").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line.data(), line.size()) < 0) std::perror("stand-in GPU: STAND_IN_COUNTS");
  if (file >= 0) close(file);
}

}  // namespace

void count(const char* what) {
  if (!counting()) return;
  Counts& all = counts();
  const std::lock_guard hold(all.lock);
  ++all.of[what];
}

void count_host_wait(const char* what) {
  count(what);
  count("host_waits");
}

}  // namespace panpipe::stand_in

extern "C" void stand_in_count(const char* what) { panpipe::stand_in::count(what); }
