// A file of token ids: little-endian numbers of 16 or 32 bits, nothing else; memory mapped, so that only what is read is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "exec/file_formats/mapped_file.hpp"
#include "exec/file_formats/token_index.hpp"

namespace panpipe::exec {

class TokenFile {
 public:
  // Sample i is `sequence` tokens from i * sequence on, and the one after them, which is the last label. `width`: bits of a
  // token; 0: as the index of Megatron says that lies beside the file (FILE.idx beside FILE.bin), else 16. InputError:
  // unreadable, bytes that are no whole token, shorter than one sample, another width or another length than the index says.
  TokenFile(const std::string& path, int width, std::int64_t sequence, std::int64_t vocabulary);

  std::int64_t samples() const { return samples_; }
  // Writes the tokens of a sample, `shift` further on. InputError, with the token's place in the file: an id of `vocabulary` or
  // above (0 = any), or below 0.
  void read(std::int64_t sample, std::int64_t shift, std::int64_t* out) const;

 private:
  MappedFile file_;
  TokenType type_ = TokenType::Unsigned16;
  std::int64_t sequence_, vocabulary_, samples_ = 0;
};

}  // namespace panpipe::exec
