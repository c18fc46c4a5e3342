// The index that Megatron-LM writes next to a file of tokens (FILE.idx next to FILE.bin): the type of the tokens, and the starts
// of the sequences and documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace panpipe::exec {

// The encoding of a token.
enum class TokenType : std::uint8_t { Unsigned16, Unsigned32, Signed32 };

struct TokenIndex {
  TokenType type{};
  std::int64_t tokens = 0;  // over all sequences
};

// "corpus.idx" for "corpus.bin", if that file exists.
std::optional<std::string> index_file_of(const std::string& tokens_file);

// Reads and checks the whole index: the sequences follow one another without gaps, and the documents are ascending ranges of
// them. Throws InputError with the file's name and the fault. Layout: megatron/core/datasets/indexed_dataset.py of Megatron-LM.
TokenIndex read_token_index(const std::string& path);

}  // namespace panpipe::exec
