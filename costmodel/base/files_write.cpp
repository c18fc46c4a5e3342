#include "costmodel/base/files_write.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "costmodel/base/error.hpp"

namespace panpipe {

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

}  // namespace panpipe
