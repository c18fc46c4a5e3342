// A file of token ids: little-endian numbers of 16 or 32 bits, nothing else. It is memory mapped, so only the parts that are read
// are loaded.
#pragma once

#include <cstdint>
#include <string>

#include "exec/file_formats/mapped_file.hpp"
#include "exec/file_formats/token_index.hpp"

namespace panpipe::exec {

class TokenFile {
 public:
  // Sample i has the `sequence` tokens from i * sequence on, plus the next one as the last label. `width`: bits of a token; 0:
  // from Megatron's index next to the file (FILE.idx next to FILE.bin), else 16. Throws InputError if the file is unreadable, has
  // a partial token, is shorter than one sample, or if width or length differ from the index.
  TokenFile(const std::string& path, int width, std::int64_t sequence, std::int64_t vocabulary);

  std::int64_t samples() const { return samples_; }
  // Writes the tokens of a sample, starting `shift` tokens later. Throws InputError with the token's place in the file for an id
  // of `vocabulary` or above (0 = any), or below 0.
  void read(std::int64_t sample, std::int64_t shift, std::int64_t* out) const;

 private:
  MappedFile file_;
  TokenType type_ = TokenType::Unsigned16;
  std::int64_t sequence_, vocabulary_, samples_ = 0;
};

}  // namespace panpipe::exec
