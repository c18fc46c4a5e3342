// A file of token ids: little-endian 16-bit numbers, nothing else; memory mapped.
#pragma once

#include <cstdint>
#include <string>

namespace panpipe::exec {

class TokenFile {
 public:
  // Sample i is `sequence` tokens from i * sequence on, and the one after them, which is the last label. InputError: unreadable,
  // of an odd number of bytes, shorter than one sample, an id of `vocabulary` or above (0 = any).
  TokenFile(const std::string& path, std::int64_t sequence, std::int64_t vocabulary);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  std::int64_t samples() const { return samples_; }
  // Writes the tokens of a sample, `shift` further on; samples start again after the last.
  void read(std::int64_t sample, std::int64_t shift, std::int64_t* out) const;

 private:
  const std::uint16_t* tokens_ = nullptr;
  std::int64_t count_ = 0, sequence_, vocabulary_, samples_ = 0;
};

}  // namespace panpipe::exec
