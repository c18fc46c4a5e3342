#include "base/text/pickle_writer.hpp"

#include <limits>

#include "base/bits.hpp"
#include "base/error.hpp"

namespace panpipe {
namespace {

// Opcodes: Lib/pickletools.py of Python.
enum : unsigned {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinUnicode = 'X',
  kBinFloat = 'G',
  kEmptyDict = '}',
  kEmptyList = ']',
  kAppends = 'e',
  kSetItems = 'u',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kProto = 0x80,
  kTuple2 = 0x86,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a
};

// Entries of a list that are appended at once, as Python's own writer does: readers in JavaScript pass them as arguments.
constexpr std::size_t kBatch = 1000;

}  // namespace

PickleWriter::PickleWriter() {
  byte(kProto);
  byte(2);
}

void PickleWriter::bytes(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) byte(static_cast<unsigned>(value >> (8 * i)) & 0xffu);
}

void PickleWriter::before_entry() {
  PANPIPE_CHECK(!open_.empty() || !has_value_, "a pickle holds one value");
  has_value_ = true;
  if (open_.empty()) return;
  Level& level = open_.back();
  if (level.is_list && level.entries > 0 && level.entries % kBatch == 0) {
    byte(kAppends);
    byte(kMark);
  }
  ++level.entries;
}

PickleWriter& PickleWriter::begin(bool is_list) {
  before_entry();
  byte(is_list ? kEmptyList : kEmptyDict);
  byte(kMark);
  open_.push_back({is_list, 0});
  return *this;
}

PickleWriter& PickleWriter::end() {
  PANPIPE_CHECK(!open_.empty() && (open_.back().is_list || open_.back().entries % 2 == 0), "nothing to close, or a key alone");
  byte(open_.back().is_list ? kAppends : kSetItems);
  open_.pop_back();
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view text) {
  const auto [found, is_new] = texts_.try_emplace(std::string(text), memos_);
  if (!is_new) return again(found->second);
  before_entry();
  byte(kBinUnicode);
  bytes(text.size(), 4);
  out_ += text;
  remember();
  return *this;
}

PickleWriter& PickleWriter::integer(std::int64_t number) {
  before_entry();
  if (number >= 0 && number <= 0xff) {
    byte(kBinInt1);
    bytes(static_cast<std::uint64_t>(number), 1);
  } else if (number >= 0 && number <= 0xffff) {
    byte(kBinInt2);
    bytes(static_cast<std::uint64_t>(number), 2);
  } else if (number >= std::numeric_limits<std::int32_t>::min() && number <= std::numeric_limits<std::int32_t>::max()) {
    byte(kBinInt);
    bytes(static_cast<std::uint64_t>(number), 4);
  } else {
    byte(kLong1);
    byte(8);
    bytes(static_cast<std::uint64_t>(number), 8);
  }
  return *this;
}

PickleWriter& PickleWriter::real(double number) {
  before_entry();
  byte(kBinFloat);
  const auto bits = bits_of(number);
  for (int shift = 56; shift >= 0; shift -= 8) byte(static_cast<unsigned>(bits >> shift) & 0xffu);
  return *this;
}

PickleWriter& PickleWriter::boolean(bool value) {
  before_entry();
  byte(value ? kNewTrue : kNewFalse);
  return *this;
}

PickleWriter& PickleWriter::pair(std::int64_t first, std::int64_t second) {
  before_entry();
  // Its members are no entries of the level.
  open_.push_back({false, 0});
  integer(first).integer(second);
  open_.pop_back();
  byte(kTuple2);
  return *this;
}

std::uint32_t PickleWriter::remember() {
  const std::uint32_t number = memos_++;
  byte(number <= 0xff ? kBinPut : kLongBinPut);
  bytes(number, number <= 0xff ? 1 : 4);
  return number;
}

PickleWriter& PickleWriter::again(std::uint32_t number) {
  before_entry();
  byte(number <= 0xff ? kBinGet : kLongBinGet);
  bytes(number, number <= 0xff ? 1 : 4);
  return *this;
}

std::string PickleWriter::finish() {
  PANPIPE_CHECK(open_.empty() && has_value_, "a pickle ends behind its value");
  byte(kStop);
  return std::move(out_);
}

}  // namespace panpipe
