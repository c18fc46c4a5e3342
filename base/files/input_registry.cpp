#include "base/files/input_registry.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace panpipe {
namespace {

struct Registry {
  std::mutex lock;
  bool listening = false;
  std::map<std::pair<dev_t, ino_t>, std::string> files;
  std::map<std::string, std::string> streams;  // by name: what was read of those that are no regular files
};

Registry& registry() {
  static Registry all;
  return all;
}

// `most` bytes at most.
bool read_blocks(const std::string& path, std::size_t most, const std::function<void(std::string_view)>& take) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return false;
  std::array<char, 1 << 16> buffer;
  while (most > 0) {
    const std::size_t got = std::fread(buffer.data(), 1, std::min(buffer.size(), most), file.get());
    if (got == 0) break;
    take({buffer.data(), got});
    most -= got;
  }
  return std::ferror(file.get()) == 0;
}

std::optional<std::string> bytes_of(const std::string& path, std::size_t most) {
  std::string text;
  if (!read_blocks(path, most + 1, [&](std::string_view block) { text += block; })) return std::nullopt;
  return text;
}

bool is_stream(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && !S_ISREG(file.st_mode);
}

}  // namespace

InputRegistry::InputRegistry() {
  const std::lock_guard hold(registry().lock);
  registry().listening = true;
}

InputRegistry::~InputRegistry() {
  const std::lock_guard hold(registry().lock);
  registry().listening = false;
  registry().files.clear();
}

void register_input(const std::string& path) {
  struct stat file {};
  const std::lock_guard hold(registry().lock);
  if (registry().listening && stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode))
    registry().files.emplace(std::pair(file.st_dev, file.st_ino), path);
}

void forget_input(const std::string& path) {
  struct stat file {};
  const std::lock_guard hold(registry().lock);
  if (stat(path.c_str(), &file) == 0) registry().files.erase({file.st_dev, file.st_ino});
}

std::string name_as_input(const std::string& path) {
  struct stat file {};
  const std::lock_guard hold(registry().lock);
  if (registry().files.empty() || stat(path.c_str(), &file) != 0) return "";
  const auto found = registry().files.find({file.st_dev, file.st_ino});
  return found == registry().files.end() ? "" : found->second;
}

std::optional<std::string> input_bytes(const std::string& path, std::size_t most) {
  if (!is_stream(path)) return bytes_of(path, most);
  {
    const std::lock_guard hold(registry().lock);
    if (const auto found = registry().streams.find(path); found != registry().streams.end()) return found->second;
  }
  const std::optional<std::string> bytes = bytes_of(path, most);
  const std::lock_guard hold(registry().lock);
  if (bytes) registry().streams.emplace(path, *bytes);
  return bytes;
}

bool read_input(const std::string& path, const std::function<void(std::string_view block)>& take) {
  if (!is_stream(path)) return read_blocks(path, std::numeric_limits<std::size_t>::max(), take);
  const std::optional<std::string> bytes = input_bytes(path);
  if (bytes) take(*bytes);
  return bytes.has_value();
}

}  // namespace panpipe
