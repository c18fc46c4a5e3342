#include "exec/file_formats/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"

namespace panpipe::exec {

MappedFile::MappedFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  register_input(path);
  struct stat status {};
  const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  bytes_ = regular ? status.st_size : 0;
  void* mapped = bytes_ > 0 ? ::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  const int reason = errno;
  ::close(file);
  if (!regular) throw InputError(fmt::format("{} is not a regular file", path));
  if (bytes_ > 0 && mapped == MAP_FAILED) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(reason)));
  if (bytes_ > 0) data_ = static_cast<const char*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), static_cast<std::size_t>(bytes_));
}

}  // namespace panpipe::exec
