#include "exec/engine/training/token_file.hpp"

#include <fmt/format.h>

#include <bit>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are mapped as they lie in the file");

int bits_of(TokenType type) { return type == TokenType::Unsigned16 ? 16 : 32; }

template <class Number>
void copy_ids(const char* from, std::int64_t count, std::int64_t* out) {
  const auto* ids = reinterpret_cast<const Number*>(from);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::int64_t>(ids[i]);
}

}  // namespace

TokenFile::TokenFile(const std::string& path, int width, std::int64_t sequence, std::int64_t vocabulary)
    : file_(path), sequence_(sequence), vocabulary_(vocabulary) {
  if (width == 32) type_ = TokenType::Unsigned32;
  const std::optional<std::string> index_file = index_file_of(path);
  if (index_file) {
    const TokenIndex index = read_token_index(*index_file);
    if (width != 0 && width != bits_of(index.type))
      throw InputError(
          fmt::format("the index {} says that tokens have {} bits, not {}", *index_file, bits_of(index.type), width));
    type_ = index.type;
    if (index.tokens * bits_of(type_) / 8 != file_.bytes())
      throw InputError(fmt::format("the index {} counts {} tokens of {} bits, which are {} bytes; {} has {}", *index_file,
                                   index.tokens, bits_of(type_), index.tokens * bits_of(type_) / 8, path, file_.bytes()));
  }
  const std::int64_t element = bits_of(type_) / 8, count = file_.bytes() / element;
  if (file_.bytes() % element != 0)
    throw InputError(
        fmt::format("a file of {} bytes does not hold {}-bit tokens: the last one is cut", file_.bytes(), bits_of(type_)));
  if (count < sequence_ + 1)
    throw InputError(fmt::format("the file holds {} tokens; a sample and its labels take {}", count, sequence_ + 1));
  samples_ = (count - 1) / sequence_;
}

void TokenFile::read(std::int64_t sample, std::int64_t shift, std::int64_t* out) const {
  const std::int64_t first = sample * sequence_ + shift;
  const char* from = file_.data() + first * (bits_of(type_) / 8);
  if (type_ == TokenType::Unsigned16)
    copy_ids<std::uint16_t>(from, sequence_, out);
  else if (type_ == TokenType::Unsigned32)
    copy_ids<std::uint32_t>(from, sequence_, out);
  else
    copy_ids<std::int32_t>(from, sequence_, out);
  for (std::int64_t i = 0; i < sequence_; ++i)
    if (out[i] < 0 || (vocabulary_ > 0 && out[i] >= vocabulary_))
      throw InputError(vocabulary_ > 0 ? fmt::format("token {} has the id {}; the model's vocabulary ends at {}", first + i,
                                                     out[i], vocabulary_ - 1)
                                       : fmt::format("token {} has the id {}, below 0", first + i, out[i]));
}

}  // namespace panpipe::exec
