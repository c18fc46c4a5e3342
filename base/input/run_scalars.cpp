#include "base/input/run_scalars.hpp"

#include <fmt/format.h>

#include "base/text/run_quantity_text.hpp"

namespace panpipe {
namespace {

template <class T>
std::optional<T> read_parsed(const Node& node, ReadLog& log, Parsed<T> (*parse)(std::string_view)) {
  const std::optional<std::string> text = read_string(node, log);
  if (!text) return std::nullopt;
  const Parsed<T> parsed = parse(*text);
  if (!parsed.value) log.error(node, parsed.problem);
  return parsed.value;
}

// The value where it is positive, and an error otherwise.
template <class T>
std::optional<T> positive(std::optional<T> value, double size, const Node& node, ReadLog& log) {
  if (!value || size > 0) return value;
  log.error(node, fmt::format("'{}' must be positive", node.text));
  return std::nullopt;
}

}  // namespace

std::optional<Power> read_power(const Node& node, ReadLog& log) {
  const std::optional<Power> power = read_parsed<Power>(node, log, parse_power);
  if (!power || *power >= Power(0)) return power;
  log.error(node, fmt::format("'{}' must not be negative", node.text));
  return std::nullopt;
}

std::optional<Money> read_money(const Node& node, ReadLog& log) {
  const std::optional<Money> money = read_parsed<Money>(node, log, parse_money);
  return positive(money, money ? money->amount : 0, node, log);
}

std::optional<double> read_count(const Node& node, ReadLog& log) { return read_parsed<double>(node, log, parse_count); }

std::optional<double> read_carbon_intensity(const Node& node, ReadLog& log) {
  const std::optional<double> intensity = read_parsed<double>(node, log, parse_carbon_intensity);
  return positive(intensity, intensity.value_or(0), node, log);
}

}  // namespace panpipe
