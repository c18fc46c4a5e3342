// Writes JSON from front to back. Equal results give equal bytes: keys keep their order, and each number has the fewest digits
// that read back as the same value.
//
// Use it for every document that has rows, or a layout for people to read. For a small object that code builds in pieces, changes
// or reads again, use nlohmann::ordered_json. Its numbers look the same, except that it writes those from 1e15 to 1e16 with an
// exponent.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace panpipe {

// Quoted text as in documents. YAML reads it back as the same text, too.
std::string json_text(std::string_view text);

// A number as in documents: "0.1", "3.0", "1e-05"; "null" for infinities and NaN.
std::string json_number(double number);

// The placement of an object's or a list's entries.
enum class JsonLayout : std::uint8_t {
  OneLine,  // {"a": 1, "b": 2}
  Dense,    // the same without blanks, also for nested entries: long lists that nobody reads
  Lines,    // one line per entry, indented by two more columns
  Flush     // one line per entry, from the left margin
};

// Every misuse (a key outside an object, a value without its key, one end() too many) is a bug of ours and throws InternalError
// at once, so finish() always returns well-formed JSON. Bytes that are not UTF-8 become the replacement character.
class JsonWriter {
 public:
  // Begins an object or a list; end() closes the innermost that is open.
  JsonWriter& object(JsonLayout layout = JsonLayout::OneLine) { return begin(true, layout); }
  JsonWriter& list(JsonLayout layout = JsonLayout::OneLine) { return begin(false, layout); }
  JsonWriter& end();
  JsonWriter& key(std::string_view name);

  // Accepts text, booleans, whole numbers, floating-point numbers (null unless finite), null, an optional of one of them (null
  // when empty), or a range of them, which becomes a list on one line.
  template <class T>
  JsonWriter& value(const T& v) {
    if constexpr (std::same_as<T, std::nullptr_t>)
      return token("null");
    else if constexpr (std::same_as<T, bool>)
      return token(v ? "true" : "false");
    else if constexpr (std::integral<T>)
      return token(std::to_string(v));
    else if constexpr (std::floating_point<T>)
      return token(json_number(v));
    else if constexpr (std::is_convertible_v<const T&, std::string_view>)
      return token(json_text(v));
    else if constexpr (requires { v.has_value(); })
      return v ? value(*v) : token("null");
    else {
      list();
      for (const auto& item : v) value(item);
      return end();
    }
  }

  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  JsonWriter& object(std::string_view name, JsonLayout layout = JsonLayout::OneLine) { return key(name).object(layout); }
  JsonWriter& list(std::string_view name, JsonLayout layout = JsonLayout::OneLine) { return key(name).list(layout); }

  // A list of an object for each row, which `write` fills.
  template <class Rows, class Write>
  JsonWriter& objects(std::string_view name, const Rows& rows, const Write& write, JsonLayout layout = JsonLayout::Lines) {
    list(name, layout);
    for (const auto& row : rows) {
      object();
      write(row);
      end();
    }
    return end();
  }

  // The document, up to its last bracket. Everything must be closed.
  std::string finish();

 private:
  struct Level {
    bool is_object = false;
    JsonLayout layout{};
    std::size_t indent = 0;  // of its entries
    bool empty = true, has_key = false;
  };

  JsonWriter& begin(bool is_object, JsonLayout layout);
  JsonWriter& token(std::string_view token);
  void before_entry();

  std::string out_;
  std::vector<Level> open_;
};

}  // namespace panpipe
