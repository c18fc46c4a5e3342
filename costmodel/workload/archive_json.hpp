// Typed access to the JSON documents of an archive. A missing value or a wrong type is a fault that names its place.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace panpipe {

using Json = nlohmann::json;

// A document of an archive. Throws InputError with file and entry.
class ArchiveDocument {
 public:
  // Parses text. Nesting is limited, and stack traces of the author's Python code are dropped.
  ArchiveDocument(std::string archive, std::string entry, const std::string& text);

  const Json& root() const { return root_; }
  [[noreturn]] void fault(const std::string& why) const;

  // `value` is the object that should contain `key`; `where` names it in messages.
  const Json& member(const Json& value, const char* key, const std::string& where) const;
  const Json* find(const Json& value, const char* key) const;  // null if absent or null
  const Json& list(const Json& value, const char* key, const std::string& where) const;
  const Json& object(const Json& value, const char* key, const std::string& where) const;
  std::string text(const Json& value, const char* key, const std::string& where) const;
  std::int64_t integer(const Json& value, const std::string& where) const;
  bool boolean(const Json& value, const std::string& where) const;
  double real(const Json& value, const std::string& where) const;  // also "Infinity", "-Infinity", "NaN"
  // The only key of a tagged union, and its value.
  std::pair<std::string, const Json*> tagged(const Json& value, const std::string& where) const;

 private:
  std::string archive_, entry_;
  Json root_;
};

}  // namespace panpipe
