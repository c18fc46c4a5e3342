#include "python/binding/scenario_cache.hpp"

#include <algorithm>
#include <fstream>
#include <list>
#include <mutex>

#include "base/files/input_registry.hpp"
#include "python/binding/interruptible.hpp"

namespace panpipe::python {
namespace {

constexpr std::size_t kMostKept = 16;  // some MB each
// Files that are compared at every call: beyond so many bytes (an exported model) reading them costs more than it saves.
constexpr std::size_t kMostBytes = 1 << 20;

struct Kept {
  std::shared_ptr<const app::PlannedScenario> planned;
  std::vector<std::pair<std::string, std::string>> files;  // files read, with their bytes
};

struct Slot {
  std::string key;
  std::shared_ptr<const Kept> kept;
};

struct Store {
  std::mutex lock;
  std::list<Slot> slots;  // the last used first
};

Store& store() {
  static Store one;
  return one;
}

bool holds(const std::string& path, const std::string& bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string now(bytes.size() + 1, '\0');
  file.read(now.data(), static_cast<std::streamsize>(now.size()));
  return static_cast<std::size_t>(file.gcount()) == bytes.size() && now.compare(0, bytes.size(), bytes) == 0;
}

std::shared_ptr<const Kept> find(const std::string& key) {
  Store& all = store();
  const std::lock_guard hold(all.lock);
  const auto found = std::find_if(all.slots.begin(), all.slots.end(), [&](const Slot& slot) { return slot.key == key; });
  if (found == all.slots.end()) return nullptr;
  all.slots.splice(all.slots.begin(), all.slots, found);
  return found->kept;
}

void keep(const std::string& key, const std::shared_ptr<const Kept>& made) {
  std::size_t bytes = 0;
  for (const auto& [path, text] : made->files) bytes += text.size();
  if (bytes > kMostBytes) return;
  Store& all = store();
  std::list<Slot> out;  // of the store: freed without its lock
  const std::lock_guard hold(all.lock);
  const auto old = std::find_if(all.slots.begin(), all.slots.end(), [&](const Slot& slot) { return slot.key == key; });
  if (old != all.slots.end()) out.splice(out.begin(), all.slots, old);
  all.slots.push_front({key, made});
  if (all.slots.size() > kMostKept) out.splice(out.begin(), all.slots, std::prev(all.slots.end()));
}

}  // namespace

std::shared_ptr<const app::PlannedScenario> cached_scenario(const ScenarioInput& input, const std::vector<std::string>& overrides,
                                                            const std::string& plan_file) {
  std::string key = input.key() + '\n' + plan_file;
  for (const std::string& assignment : overrides) key += '\n' + assignment;
  if (const auto found = find(key)) {
    const auto same = [](const auto& file) { return holds(file.first, file.second); };
    if (std::all_of(found->files.begin(), found->files.end(), same)) return found->planned;
  }
  const auto made = std::make_shared<Kept>();
  interruptibly([&](const auto&) {
    made->planned = app::plan_scenario(
        input.name(), [&] { return input.load(overrides, plan_file); }, plan_file);
    for (const auto& [path, hash] : made->planned->hashes) made->files.emplace_back(path, input_bytes(path).value_or(""));
  });
  keep(key, made);
  return made->planned;
}

void clear_cached_scenarios() {
  const std::lock_guard hold(store().lock);
  store().slots.clear();
}

}  // namespace panpipe::python
