// Reads one scalar of any quantity, for the readers of this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/input/reader.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {

// False, with an error, if the node holds anything but a single value.
bool is_scalar(const Node& node, ReadLog& log, const char* expected);
// The sentence for a value outside its limits, empty when it is inside.
std::string sign_problem(double value, Sign sign, const std::string& text);

template <class T>
double plain(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else if constexpr (requires { value.amount; })
    return value.amount;
  else
    return static_cast<double>(value.base());
}

// The value that was parsed and has no `problem`; else logs what is wrong.
template <class T>
std::optional<T> accepted(const Node& node, ReadLog& log, const Parsed<T>& parsed, const std::string& problem) {
  if (parsed.value && problem.empty()) {
    log.resolved(node.path, node.text, origin_of(node));
    return parsed.value;
  }
  log.error(node, parsed.value ? problem : parsed.problem, "", parsed.value ? code::kOutOfRange : code::kNotANumber);
  return std::nullopt;
}

template <class T>
std::optional<T> read_scalar(const Node& node, ReadLog& log, Sign sign, Parsed<T> (*parse)(std::string_view),
                             const char* expected) {
  if (!is_scalar(node, log, expected)) return std::nullopt;
  const Parsed<T> parsed = parse(node.text);
  return accepted(node, log, parsed, parsed.value ? sign_problem(plain(*parsed.value), sign, node.text) : "");
}

}  // namespace panpipe
