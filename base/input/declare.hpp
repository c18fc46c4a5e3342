// A key in one call: its name, its meaning, and in any order what else there is to it. A part is a form, a word for what acts on
// it or exports it, or one of these.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input/key.hpp"

namespace panpipe {

// Files that declare keys name these in short: `using namespace key_parts;`.
namespace key_parts {

enum class KeyTrait { Required, Open };
constexpr KeyTrait kRequired = KeyTrait::Required, kOpen = KeyTrait::Open;

struct Words {
  Words(std::initializer_list<std::string> words) : accepted(words) {}
  Words(std::vector<std::string> words) : accepted(std::move(words)) {}
  std::vector<std::string> accepted;
};
struct Items {
  Key each;
};
struct Inside {
  Inside(std::initializer_list<Key> keys) : map(keys) {}
  Inside(Keys keys) : map(std::move(keys)) {}
  Keys map;
};
struct Fallback {
  std::string value;
};
struct Otherwise {
  std::string_view words;
};
struct Page {
  std::string_view path;
};
struct Example {
  std::string value;
};

inline void put(Key& key, const Form& form) { key.forms.push_back(form); }
inline void put(Key& key, KeyTrait trait) { (trait == KeyTrait::Open ? key.open : key.required) = true; }
inline void put(Key& key, const Words& words) { key.words = words.accepted; }
inline void put(Key& key, const Items& items) { key.items = {items.each}; }
inline void put(Key& key, const Inside& inside) { key.keys = inside.map; }
inline void put(Key& key, const Fallback& fallback) { key.fallback = fallback.value; }
inline void put(Key& key, const Otherwise& otherwise) { key.otherwise = otherwise.words; }
inline void put(Key& key, const Page& page) { key.page = page.path; }
inline void put(Key& key, const Example& example) { key.example = example.value; }
inline void put(Key& key, ActsOn acts_on) { key.acts_on = acts_on; }
inline void put(Key& key, InExports exports) { key.exports = exports; }

}  // namespace key_parts

template <class... Parts>
Key declare(std::string name, std::string_view meaning, const Parts&... parts) {
  Key key;
  key.name = std::move(name), key.meaning = meaning;
  (key_parts::put(key, parts), ...);
  return key;
}

namespace key_parts {

// Of a list.
template <class... Parts>
Items items(const Parts&... parts) {
  return {declare("", "", parts...)};
}

}  // namespace key_parts

}  // namespace panpipe
