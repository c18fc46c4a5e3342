// Files of tests, where other tests do not meet them and nothing of them is left behind.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace panpipe::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return (std::ostringstream() << file.rdbuf()).str();
}

// Makes its folder too. Returns the path.
inline std::string write_file(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  if (!(std::ofstream(path, std::ios::binary) << text)) throw std::runtime_error("cannot write " + path.string());
  return path.string();
}

// A folder of its own, removed with all that is in it by the process that made it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
    std::string name = (in / "panpipe-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const { return write_file(path_ / name, text); }

 private:
  std::filesystem::path path_;
  pid_t owner_ = getpid();
};

// The folder of this test program, which lives as long as the program. ctest runs each test in a program of its own.
inline const TemporaryFolder& scratch() {
  static const TemporaryFolder folder;
  return folder;
}

}  // namespace panpipe::test
