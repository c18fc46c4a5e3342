// Keys whose row is all that is written about them: the member of a struct that holds the value gives its form and its default.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/input/declare.hpp"
#include "base/input/reader.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {

// A row of the keys that are read into a T. Without `read` it is a key of a structured form, which its own code reads.
template <class T>
struct BoundKey : Key {
  std::function<void(const Key&, MapReader&, T&)> read = nullptr;
};

namespace bound_keys {

template <class V>
struct Held {
  using type = V;
};
template <class V>
struct Held<std::optional<V>> {
  using type = V;
};

template <class V>
Form form_of() {
  if constexpr (std::is_same_v<V, bool>) return form::truth();
  if constexpr (std::is_same_v<V, int>) return form::whole(0);
  if constexpr (std::is_same_v<V, double>) return form::number(Sign::NonNegative);
  if constexpr (std::is_same_v<V, Bytes>) return form::size();
  if constexpr (std::is_same_v<V, Duration>) return form::time();
  if constexpr (std::is_same_v<V, Bandwidth>) return form::bandwidth();
  if constexpr (std::is_same_v<V, std::string>) return form::text();
}

template <class V>
V read_value(MapReader& reader, const Key& key, const std::optional<V>& fallback) {
  const Form& form = key.forms.front();
  if constexpr (std::is_same_v<V, bool>) return reader.boolean(key.name, fallback);
  if constexpr (std::is_same_v<V, int>) return reader.integer(key.name, form.at_least, fallback);
  if constexpr (std::is_same_v<V, double>)
    return form.kind == ValueForm::Share ? reader.fraction(key.name, fallback) : reader.number(key.name, form.sign, fallback);
  if constexpr (std::is_same_v<V, Bytes>) return reader.bytes(key.name, form.sign, fallback);
  if constexpr (std::is_same_v<V, Duration>) return reader.duration(key.name, form.sign, fallback);
  if constexpr (std::is_same_v<V, Bandwidth>) return reader.bandwidth(key.name, form.sign, fallback);
  if constexpr (std::is_same_v<V, std::string>) return reader.string(key.name, fallback);
}

template <class V>
std::string text_of(const V& value, const Key& key) {
  if constexpr (std::is_same_v<V, bool>) return value ? "true" : "false";
  if constexpr (std::is_same_v<V, double>)
    return key.forms.front().kind == ValueForm::Share ? exact_fraction_text(value) : fmt::format("{}", value);
  if constexpr (std::is_same_v<V, int>) return std::to_string(value);
  if constexpr (std::is_same_v<V, std::string>) return value;
  if constexpr (std::is_same_v<V, Bytes> || std::is_same_v<V, Duration> || std::is_same_v<V, Bandwidth>) return exact_text(value);
}

template <class T, class M, class Read, class Text>
BoundKey<T> row(M T::*member, Key key, bool if_stated, Read read, Text text) {
  using V = typename Held<M>::type;
  constexpr bool optional = !std::is_same_v<V, M>;
  if constexpr (!optional)
    if (!if_stated && !key.required && key.otherwise.empty()) key.fallback = text(T{}.*member, key);
  BoundKey<T> bound{std::move(key)};
  bound.read = [member, if_stated, read](const Key& own, MapReader& reader, T& into) {
    if (!own.required && (if_stated || optional) && reader.find(own.name) == nullptr) return;
    std::optional<V> fallback;
    if constexpr (!optional)
      if (!if_stated && !own.required) fallback = into.*member;
    into.*member = read(reader, own, fallback);
  };
  return bound;
}

template <class T, class M>
BoundKey<T> scalar(M T::*member, Key key, bool if_stated) {
  using V = typename Held<M>::type;
  if (key.forms.empty()) key.forms = {form_of<V>()};
  return row(member, std::move(key), if_stated, read_value<V>, text_of<V>);
}

template <class T, class M>
BoundKey<T> choice(M T::*member, const Choices<typename Held<M>::type>& choices, Key key, bool if_stated) {
  using V = typename Held<M>::type;
  key.words = names_of(choices);
  const auto read = [choices](MapReader& reader, const Key& of, const std::optional<V>& fallback) {
    return reader.choice<V>(of.name, choices, fallback);
  };
  const auto text = [&choices](const V& value, const Key&) { return std::string(word_of(choices, value)); };
  return row(member, std::move(key), if_stated, read, text);
}

}  // namespace bound_keys

// An absent key leaves the member as it is, and this value is recorded as the default; that of an optional member is not. The
// declaration names the member's initial value, unless it states a value for `otherwise`.
template <class T, class M, class... Parts>
BoundKey<T> bound(M T::*member, const char* name, std::string_view meaning, const Parts&... parts) {
  return bound_keys::scalar(member, declare(name, meaning, parts...), false);
}
template <class T, class M, class... Parts>
BoundKey<T> bound(M T::*member, const Choices<typename bound_keys::Held<M>::type>& choices, const char* name,
                  std::string_view meaning, const Parts&... parts) {
  return bound_keys::choice(member, choices, declare(name, meaning, parts...), false);
}

// For members whose value without the key stands for "not stated" or comes from elsewhere: it is not recorded.
template <class T, class M, class... Parts>
BoundKey<T> bound_if_stated(M T::*member, const char* name, std::string_view meaning, const Parts&... parts) {
  return bound_keys::scalar(member, declare(name, meaning, parts...), true);
}
template <class T, class M, class... Parts>
BoundKey<T> bound_if_stated(M T::*member, const Choices<M>& choices, const char* name, std::string_view meaning,
                            const Parts&... parts) {
  return bound_keys::choice(member, choices, declare(name, meaning, parts...), true);
}

// Reads every bound key, in the order of the rows.
template <class T>
void read_keys(MapReader& reader, const std::vector<BoundKey<T>>& rows, T& into) {
  for (const BoundKey<T>& row : rows)
    if (row.read) row.read(row, reader, into);
}

template <class T>
void read_key(MapReader& reader, const std::vector<BoundKey<T>>& rows, std::string_view name, T& into) {
  for (const BoundKey<T>& row : rows)
    if (row.name == name) return row.read(row, reader, into);
  PANPIPE_CHECK(false, fmt::format("no key '{}' is declared", name));
}

template <class T>
Keys declared(const std::vector<BoundKey<T>>& rows) {
  return std::vector<Key>(rows.begin(), rows.end());
}

}  // namespace panpipe
