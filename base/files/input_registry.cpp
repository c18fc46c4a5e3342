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

struct Kept {
  std::mutex lock;
  bool listening = false;
  std::map<std::pair<dev_t, ino_t>, std::string> files;
  std::map<std::string, std::string> streams;  // by name: what was read of those that are no regular files
};

Kept& kept() {
  static Kept all;
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
  const std::lock_guard hold(kept().lock);
  kept().listening = true;
}

InputRegistry::~InputRegistry() {
  const std::lock_guard hold(kept().lock);
  kept().listening = false;
  kept().files.clear();
}

void register_input(const std::string& path) {
  struct stat file {};
  const std::lock_guard hold(kept().lock);
  if (kept().listening && stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode))
    kept().files.emplace(std::pair(file.st_dev, file.st_ino), path);
}

std::string name_as_input(const std::string& path) {
  struct stat file {};
  const std::lock_guard hold(kept().lock);
  if (kept().files.empty() || stat(path.c_str(), &file) != 0) return "";
  const auto found = kept().files.find({file.st_dev, file.st_ino});
  return found == kept().files.end() ? "" : found->second;
}

std::optional<std::string> input_bytes(const std::string& path, std::size_t most) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || S_ISREG(file.st_mode)) return bytes_of(path, most);
  {
    const std::lock_guard hold(kept().lock);
    if (const auto found = kept().streams.find(path); found != kept().streams.end()) return found->second;
  }
  const std::optional<std::string> bytes = bytes_of(path, most);
  const std::lock_guard hold(kept().lock);
  if (bytes) kept().streams.emplace(path, *bytes);
  return bytes;
}

}  // namespace panpipe
