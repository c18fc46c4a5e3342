#include "costmodel/workload/archive_json.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/error.hpp"
#include "base/input/json_input.hpp"

namespace panpipe {

ArchiveDocument::ArchiveDocument(std::string archive, std::string entry, const std::string& text)
    : archive_(std::move(archive)), entry_(std::move(entry)) {
  root_ = parse_json<Json>(text, fmt::format("{}: {}", archive_, entry_), [](int, Json::parse_event_t event, Json& parsed) {
    return !(event == Json::parse_event_t::key && parsed == "stack_trace");
  });
}

void ArchiveDocument::fault(const std::string& why) const { throw InputError(fmt::format("{}: {}: {}", archive_, entry_, why)); }

const Json* ArchiveDocument::find(const Json& value, const char* key) const {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

const Json& ArchiveDocument::member(const Json& value, const char* key, const std::string& where) const {
  const Json* found = find(value, key);
  if (!found) fault(fmt::format("{} has no '{}'", where, key));
  return *found;
}

const Json& ArchiveDocument::list(const Json& value, const char* key, const std::string& where) const {
  const Json& found = member(value, key, where);
  if (!found.is_array()) fault(fmt::format("'{}' of {} is not a list", key, where));
  return found;
}

const Json& ArchiveDocument::object(const Json& value, const char* key, const std::string& where) const {
  const Json& found = member(value, key, where);
  if (!found.is_object()) fault(fmt::format("'{}' of {} is not an object", key, where));
  return found;
}

std::string ArchiveDocument::text(const Json& value, const char* key, const std::string& where) const {
  const Json& found = member(value, key, where);
  if (!found.is_string()) fault(fmt::format("'{}' of {} is not a text", key, where));
  return found.get<std::string>();
}

std::int64_t ArchiveDocument::integer(const Json& value, const std::string& where) const {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) fault(fmt::format("{} is not a whole number of 64 bits", where));
  return value.get<std::int64_t>();
}

bool ArchiveDocument::boolean(const Json& value, const std::string& where) const {
  if (!value.is_boolean()) fault(fmt::format("{} is neither true nor false", where));
  return value.get<bool>();
}

double ArchiveDocument::real(const Json& value, const std::string& where) const {
  if (value.is_number()) return value.get<double>();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fault(fmt::format("{} is not a number", where));
}

std::pair<std::string, const Json*> ArchiveDocument::tagged(const Json& value, const std::string& where) const {
  if (!value.is_object() || value.size() != 1) fault(fmt::format("{} is not an object of one key", where));
  return {value.begin().key(), &value.begin().value()};
}

}  // namespace panpipe
