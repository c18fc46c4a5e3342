#include "exec/engine/training/token_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "costmodel/base/error.hpp"
#include "costmodel/base/inputs_kept.hpp"

namespace panpipe::exec {

static_assert(std::endian::native == std::endian::little, "tokens are mapped as they lie in the file");

TokenFile::TokenFile(const std::string& path, std::int64_t sequence, std::int64_t vocabulary)
    : sequence_(sequence), vocabulary_(vocabulary) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  struct stat status {};
  keep_input(path);
  const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const std::int64_t bytes = regular ? status.st_size : 0;
  void* mapped = bytes > 0 ? ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (mapped != MAP_FAILED) tokens_ = static_cast<const std::uint16_t*>(mapped);
  count_ = bytes / 2;
  samples_ = (count_ - 1) / sequence_;
  const auto refuse = [&](const std::string& why) {
    if (tokens_ != nullptr) ::munmap(mapped, static_cast<std::size_t>(bytes));
    throw InputError(why);
  };
  if (!regular) refuse(fmt::format("{} is not a regular file", path));
  if (bytes % 2 != 0) refuse(fmt::format("a file of {} bytes does not hold 16-bit tokens: the last one is cut", bytes));
  if (count_ < sequence_ + 1)
    refuse(fmt::format("the file holds {} tokens; a sample and its labels take {}", count_, sequence_ + 1));
  const std::uint16_t* beyond =
      vocabulary_ <= 0 ? tokens_ + count_
                       : std::find_if(tokens_, tokens_ + count_, [&](std::uint16_t token) { return token >= vocabulary_; });
  if (beyond != tokens_ + count_) {
    const int token = *beyond;
    const auto at = beyond - tokens_;
    refuse(fmt::format("token {} has the id {}; the model's vocabulary ends at {}", at, token, vocabulary_ - 1));
  }
}

TokenFile::~TokenFile() { ::munmap(const_cast<std::uint16_t*>(tokens_), static_cast<std::size_t>(count_) * 2); }

void TokenFile::read(std::int64_t sample, std::int64_t shift, std::int64_t* out) const {
  const std::uint16_t* from = tokens_ + sample % samples_ * sequence_ + shift;
  std::copy(from, from + sequence_, out);
}

}  // namespace panpipe::exec
