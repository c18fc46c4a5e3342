// Reads a pickle of Python that holds plain data: dicts, lists, tuples, texts, numbers. Nothing of it is run: what would import
// or call something of Python is refused by name. Memory stays within the bounds below and a small multiple of the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

enum class PickleKind : std::uint8_t { None, Boolean, Integer, Real, Text, List, Dict };

struct PickleValue {
  PickleKind kind = PickleKind::None;
  union {
    std::int64_t integer = 0;  // also of a boolean; of a text its place in the file; of a list or dict its number
    double real;
  };
};

class Pickle {
 public:
  static constexpr long long kLargestFile = 512LL << 20;
  static constexpr std::size_t kMostValues = std::size_t{1} << 25;      // in lists and dicts together
  static constexpr std::size_t kMostContainers = std::size_t{1} << 23;  // also of memos, and of values that wait for their list

  // `name`: for messages. Throws InputError for what is no pickle, is cut off, holds objects, or is beyond a bound.
  Pickle(std::string bytes, std::string name);

  const PickleValue& root() const { return root_; }
  // Of a dict; null where the key is not there, or `value` is no dict. O(its entries).
  const PickleValue* find(const PickleValue& value, std::string_view key) const;
  std::string_view text(const PickleValue& value) const;              // empty: no text
  std::span<const PickleValue> items(const PickleValue& list) const;  // of a list or tuple; empty: neither

 private:
  friend class PickleParser;
  std::string bytes_;
  std::string name_;
  std::vector<std::vector<PickleValue>> containers_;  // of dicts keys and values in turn
  PickleValue root_;
};

}  // namespace panpipe
