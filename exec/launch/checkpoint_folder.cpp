#include "exec/launch/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

// "step-000123" between `before` and `after` -> 123; -1 for other names.
std::int64_t step_within(const std::string& name, std::string_view before, std::string_view after) {
  if (name.size() < before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return -1;
  const char* const last = name.data() + name.size() - after.size();
  std::int64_t step = -1;
  const auto [end, fault] = std::from_chars(name.data() + before.size(), last, step);
  return fault == std::errc() && end == last ? step : -1;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:06}", step); }
std::string unfinished_name(std::int64_t step) { return fmt::format(".step-{:06}.part", step); }

std::int64_t step_of(const fs::path& folder) { return step_within(folder.filename(), "step-", ""); }

std::vector<fs::path> checkpoints_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none))
    if (step_of(entry.path()) >= 0) found.push_back(entry.path());
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) { return step_of(a) > step_of(b); });
  return found;
}

void set_aside_later(const fs::path& directory, std::int64_t step) {
  for (const fs::path& folder : checkpoints_in(directory)) {
    if (step_of(folder) <= step) return;  // the newest come first
    const fs::path aside = folder.string() + ".abandoned";
    std::error_code fault;
    fs::remove_all(aside, fault);  // of an earlier return
    if (!fault) fs::rename(folder, aside, fault);
    if (fault) throw MachineError(fmt::format("cannot rename {} to {}: {}", folder.string(), aside.string(), fault.message()));
  }
}

void remove_unfinished(const fs::path& directory) {
  std::vector<fs::path> left;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (step_within(entry.path().filename(), ".step-", ".part") >= 0) left.push_back(entry.path());
  for (const fs::path& folder : left) fs::remove_all(folder, ignored);
}

}  // namespace panpipe::exec
