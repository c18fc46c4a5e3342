#include "costmodel/base/inputs_kept.hpp"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

namespace panpipe {
namespace {

struct Kept {
  std::mutex lock;
  bool listening = false;
  std::map<std::pair<dev_t, ino_t>, std::string> files;
};

Kept& kept() {
  static Kept all;
  return all;
}

}  // namespace

InputsKept::InputsKept() {
  const std::lock_guard hold(kept().lock);
  kept().listening = true;
}

InputsKept::~InputsKept() {
  const std::lock_guard hold(kept().lock);
  kept().listening = false;
  kept().files.clear();
}

void keep_input(const std::string& path) {
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

}  // namespace panpipe
