#include "tests/cli/program.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace panpipe::test {
namespace fs = std::filesystem;

namespace {
struct Folders {
  std::string base;
  int count = 0;
  Folders() {
    std::string name = (fs::temp_directory_path() / "panpipe-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    base = name;
  }
  ~Folders() { fs::remove_all(base); }
};
Folders& folders() {
  static Folders instance;
  return instance;
}
}  // namespace

std::string temporary_folder() {
  const std::string folder = folders().base + "/" + std::to_string(folders().count++);
  fs::create_directories(folder);
  return folder;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file) throw std::runtime_error("cannot write " + path);
}

Outcome panpipe(const std::string& arguments, const std::string& out) {
  const char* bin = std::getenv("PANPIPE_BIN");
  if (!bin) throw std::runtime_error("PANPIPE_BIN is not set; run through ctest");
  const std::string folder = temporary_folder();
  const std::string command = "cd .. && NO_COLOR=1 '" + std::string(bin) + "/panpipe' " + arguments + " >" +
                              (out.empty() ? folder + "/out" : out) + " 2>" + folder + "/err </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.empty() ? read_file(folder + "/out") : "",
          read_file(folder + "/err")};
}

}  // namespace panpipe::test
