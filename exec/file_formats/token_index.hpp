// The index that Megatron-LM writes beside a file of tokens (FILE.idx beside FILE.bin): which type the tokens have, and where the
// sequences and documents begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace panpipe::exec {

// How the bytes of a token are read.
enum class TokenType : std::uint8_t { Unsigned16, Unsigned32, Signed32 };

struct TokenIndex {
  TokenType type{};
  std::int64_t tokens = 0;  // of all sequences together
};

// "corpus.idx" for "corpus.bin", where such a file exists.
std::optional<std::string> index_beside(const std::string& tokens_file);

// Reads and checks it whole: the sequences follow one another without gaps, the documents are ascending ranges of them.
// InputError naming the file and what is wrong. Layout: megatron/core/datasets/indexed_dataset.py of Megatron-LM.
TokenIndex read_token_index(const std::string& path);

}  // namespace panpipe::exec
