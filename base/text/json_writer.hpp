// JSON, written from front to back: equal results are equal bytes, since keys keep their order and numbers have the fewest digits
// that read back the same.
//
// Use it for every document that has rows, or a layout for people to read. A small object that code gathers in pieces, changes or
// reads again is a nlohmann::ordered_json; its numbers look the same (but for those from 1e15 to 1e16, which have an exponent
// there).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace panpipe {

// Text in quotes, as documents have it; YAML reads it back as the same text, too.
std::string json_text(std::string_view text);

// A number as documents have it: "0.1", "3.0", "1e-05"; "null" for what is not finite.
std::string json_number(double number);

// Where the entries of an object or a list stand.
enum class JsonLayout : std::uint8_t {
  OneLine,  // {"a": 1, "b": 2}
  Dense,    // the same without blanks, also in what it holds: long lists that no person reads
  Lines,    // a line for each entry, two columns further in
  Flush     // a line for each entry, from the left margin
};

// Every fault of use (a key outside an object, a value without its key, an end too many) is a bug of ours and throws at once:
// what finish() returns is well-formed. Text that is not UTF-8 gets the replacement character.
class JsonWriter {
 public:
  // Begins an object or a list; end() closes the innermost that is open.
  JsonWriter& object(JsonLayout layout = JsonLayout::OneLine) { return begin(true, layout); }
  JsonWriter& list(JsonLayout layout = JsonLayout::OneLine) { return begin(false, layout); }
  JsonWriter& end();
  JsonWriter& key(std::string_view name);

  // Text, true and false, whole numbers, numbers (null where they are not finite), null, an optional of one of them (null when
  // empty), or a range of them: a list on one line.
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

  // The document, which ends with its last bracket: everything must be closed.
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
