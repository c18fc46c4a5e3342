#include "exec/file_formats/token_index.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "exec/file_formats/mapped_file.hpp"

namespace panpipe::exec {
namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;  // magic, version, type, sequences, entries of the document index

// Numbers of an index lie where they lie, not on multiples of their size.
template <class Number>
Number number_at(const MappedFile& file, std::int64_t offset) {
  Number value{};
  std::memcpy(&value, file.data() + offset, sizeof(Number));
  return value;
}

[[noreturn]] void broken_index(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("the index {}: {}", path, why));
}

// Megatron's codes of the types that it writes tokens in.
TokenType type_of_code(const std::string& path, int code) {
  constexpr int kInt32 = 4, kUint16 = 8;
  if (code == kUint16) return TokenType::Unsigned16;
  if (code == kInt32) return TokenType::Signed32;
  broken_index(
      path, fmt::format("it gives the tokens the type {}; tokens are read as uint16 ({}) and int32 ({})", code, kUint16, kInt32));
}

}  // namespace

std::optional<std::string> index_file_of(const std::string& tokens_file) {
  const std::filesystem::path file(tokens_file);
  if (file.extension() != ".bin") return std::nullopt;
  const std::filesystem::path index = std::filesystem::path(file).replace_extension(".idx");
  std::error_code missing;
  return std::filesystem::exists(index, missing) ? std::optional(index.string()) : std::nullopt;
}

TokenIndex read_token_index(const std::string& path) {
  const MappedFile file(path);
  const auto refuse = [&](const std::string& why) { broken_index(path, why); };
  if (file.bytes() < kHeaderBytes) refuse(fmt::format("{} bytes are shorter than its header of {}", file.bytes(), kHeaderBytes));
  if (std::string_view(file.data(), kIndexMagic.size()) != kIndexMagic)
    refuse("it does not begin as an index of Megatron; rename it if it is something else");
  if (const auto version = number_at<std::uint64_t>(file, 9); version != 1)
    refuse(fmt::format("it has version {}; version 1 is read", version));
  TokenIndex index;
  index.type = type_of_code(path, number_at<std::uint8_t>(file, 17));
  const auto sequences = number_at<std::uint64_t>(file, 18), documents = number_at<std::uint64_t>(file, 26);
  // The file holds the length (4 bytes) and the start (8) of each sequence, then the first sequence (8) of each document. A
  // multimodal index has a byte for each sequence after them.
  const auto most = static_cast<std::uint64_t>(file.bytes());
  const bool may_fit = sequences <= most && documents <= most;  // no sum below overflows
  const std::uint64_t wanted = may_fit ? static_cast<std::uint64_t>(kHeaderBytes) + 12 * sequences + 8 * documents : 0;
  if (!may_fit || (wanted != most && wanted + sequences != most))
    refuse(fmt::format("its {} sequences and {} entries of documents do not make its {} bytes", sequences, documents, most));
  const std::int64_t element = index.type == TokenType::Unsigned16 ? 2 : 4, count = static_cast<std::int64_t>(sequences);
  const std::int64_t pointers = kHeaderBytes + 4 * count, entries = pointers + 8 * count;
  for (std::int64_t s = 0; s < count; ++s) {
    const auto length = number_at<std::int32_t>(file, kHeaderBytes + 4 * s);
    if (length < 0) refuse(fmt::format("sequence {} has {} tokens", s, length));
    if (const auto begin = number_at<std::int64_t>(file, pointers + 8 * s); begin != index.tokens * element)
      refuse(fmt::format("sequence {} begins at byte {}, the one before it ends at {}", s, begin, index.tokens * element));
    index.tokens += length;
  }
  std::int64_t before = 0;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(documents); ++d) {
    const auto first = number_at<std::int64_t>(file, entries + 8 * d);
    const bool last = d + 1 == static_cast<std::int64_t>(documents);
    if (first < before || (d == 0 && first != 0) || (last && first != count))
      refuse(fmt::format("entry {} of its documents is {}; they go from 0 to the {} sequences and never back", d, first, count));
    before = first;
  }
  return index;
}

}  // namespace panpipe::exec
