#include "cli/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "costmodel/base/error.hpp"

namespace panpipe::cli {

void print(const std::string& text) {
  errno = 0;
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  throw MachineError(fmt::format("cannot write to standard output: {}", std::strerror(errno != 0 ? errno : EIO)));
}

void write_file(const std::string& path, const std::string& text, const std::string& advice) {
  const std::string part = path + ".part";
  const auto fail = [&](int reason) {
    std::remove(part.c_str());
    throw MachineError(fmt::format("cannot write {}: {}{}", path, std::strerror(reason != 0 ? reason : EIO),
                                   advice.empty() ? std::string() : "; " + advice));
  };
  errno = 0;
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) fail(errno);
  if (std::rename(part.c_str(), path.c_str()) != 0) fail(errno);
}

bool color_wanted() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace panpipe::cli
