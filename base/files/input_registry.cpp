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

std::optional<std::string> bytes_of(const std::string& path, std::size_t most) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (text.size() <= most) {
    const std::size_t got = std::fread(buffer.data(), 1, std::min(buffer.size(), most + 1 - text.size()), file.get());
    if (got == 0) break;
    text.append(buffer.data(), got);
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  return text;
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
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || S_ISREG(file.st_mode)) return bytes_of(path, most);
  {
    const std::lock_guard hold(registry().lock);
    if (const auto found = registry().streams.find(path); found != registry().streams.end()) return found->second;
  }
  const std::optional<std::string> bytes = bytes_of(path, most);
  const std::lock_guard hold(registry().lock);
  if (bytes) registry().streams.emplace(path, *bytes);
  return bytes;
}

}  // namespace panpipe
