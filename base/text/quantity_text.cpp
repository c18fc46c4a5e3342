#include "base/text/quantity_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

#include "base/text/characters.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/run_quantity_text.hpp"
#include "base/text/trimmed.hpp"

namespace panpipe {

namespace {

constexpr std::string_view kBlanks = " \t";

struct Unit {
  std::string_view name;
  long double factor;  // of the base unit
};

// How far from 1 a value other than 0 may be, in the base unit. Far beyond anything that exists, and so far inside a double that
// no product or quotient of a few of them overflows.
struct Limits {
  double least = 0, most = 0;
  std::string_view words;  // "a time is ..."; empty: those of its type
};

constexpr Limits kMoneyLimits{1e-9, 1e18, "an amount of money is between 1e-9 and 1e18"};
constexpr Limits kCountLimits{1, 1e18, "a count is between 1 and 1e18"};
constexpr Limits kNumberLimits{1e-38, 1e38, "a number is between 1e-38 and 1e38"};  // fp32's: learning rates, loss scales

Parsed<long double> inside(long double value, const Limits& limits, std::string_view text) {
  const double size = std::abs(static_cast<double>(value));
  if (limits.words.empty() || value == 0 || (size >= limits.least && size <= limits.most)) return {value, ""};
  return {{}, fmt::format("'{}' is out of range; {}", text, limits.words)};
}

template <class T>
Parsed<T> parsed_as(const Parsed<long double>& parsed) {
  if (!parsed.value) return {{}, parsed.problem};
  return {T(static_cast<double>(*parsed.value)), ""};
}

// A kind of quantity: its name, its units, and the right spelling of a bare number.
struct Kind {
  std::string_view article_and_name;
  std::span<const Unit> units;
  std::array<std::string_view, 3> usual;  // units offered to a number without one
  Limits limits = {};
};

constexpr Unit kTimes[] = {{"s", 1},       {"ms", 1e-3L}, {"us", 1e-6L}, {"ns", 1e-9L},
                           {"ps", 1e-12L}, {"min", 60},   {"h", 3600},   {"d", 86400}};
constexpr Unit kSizes[] = {{"B", 1},         {"kB", 1e3L},     {"MB", 1e6L},     {"GB", 1e9L},    {"TB", 1e12L},
                           {"KiB", 0x1p10L}, {"MiB", 0x1p20L}, {"GiB", 0x1p30L}, {"TiB", 0x1p40L}};
constexpr Unit kBandwidths[] = {{"B/s", 1},         {"kB/s", 1e3L},     {"MB/s", 1e6L},     {"GB/s", 1e9L},
                                {"TB/s", 1e12L},    {"KiB/s", 0x1p10L}, {"MiB/s", 0x1p20L}, {"GiB/s", 0x1p30L},
                                {"TiB/s", 0x1p40L}, {"Mb/s", 1e6L / 8}, {"Gb/s", 1e9L / 8}, {"Tb/s", 1e12L / 8}};
constexpr Unit kComputeRates[] = {{"FLOP/s", 1},     {"kFLOP/s", 1e3L},  {"MFLOP/s", 1e6L},
                                  {"GFLOP/s", 1e9L}, {"TFLOP/s", 1e12L}, {"PFLOP/s", 1e15L}};
constexpr Unit kWork[] = {{"FLOP", 1},      {"kFLOP", 1e3L},  {"MFLOP", 1e6L}, {"GFLOP", 1e9L},
                          {"TFLOP", 1e12L}, {"PFLOP", 1e15L}, {"EFLOP", 1e18L}};
constexpr Unit kShares[] = {{"%", 1e-2L}};
constexpr Unit kPowers[] = {{"W", 1}, {"kW", 1e3L}, {"MW", 1e6L}};
constexpr Unit kIntensities[] = {{"g/kWh", 1}, {"kg/kWh", 1e3L}};

// An engine counts in 1e-12 s; 1e9 s are 30 years.
constexpr Kind kDuration{"a time", kTimes, {"us", "ms", "s"}, {1e-18, 1e9, "a time is between 1e-18 s and 1e9 s"}};
constexpr Kind kBytes{"a size", kSizes, {"GiB", "GB"}};
constexpr Kind kBandwidth{"a bandwidth", kBandwidths, {"GB/s"}, {1e-9, 1e18, "a bandwidth is between 1e-9 B/s and 1e6 TB/s"}};
constexpr Kind kComputeRate{
    "a compute rate", kComputeRates, {"TFLOP/s"}, {1, 1e30, "a compute rate is between 1 FLOP/s and 1e15 PFLOP/s"}};
constexpr Kind kFlops{"an amount of work", kWork, {"GFLOP", "TFLOP"}};
constexpr Kind kFraction{"a share", kShares, {"%"}, {1e-12, 1e9, "a share is between 1e-10 % and 1e11 %"}};
constexpr Kind kPower{"a power", kPowers, {"W"}, {1e-3, 1e12, "a power is between 1 mW and 1 TW"}};
constexpr Kind kCarbon{
    "a carbon intensity", kIntensities, {"g/kWh"}, {1e-6, 1e6, "a carbon intensity is between 1e-6 g/kWh and 1000 kg/kWh"}};

// "'a', 'b' or 'c'"
std::string either(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " or " : ", ";
    text += fmt::format("'{}'", items[i]);
  }
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Length of the decimal number at the start: sign, digits, point and digits, exponent. 0 if there is none.
std::size_t number_length(std::string_view text) {
  const auto is = [&](std::size_t i, std::string_view any) { return i < text.size() && any.find(text[i]) != any.npos; };
  const auto behind_digits = [&](std::size_t i) {
    while (i < text.size() && is_digit(text[i])) ++i;
    return i;
  };
  const std::size_t first = is(0, "+-") ? 1 : 0;
  std::size_t end = behind_digits(first);
  if (end == first) return 0;
  if (const std::size_t behind = behind_digits(end + 1); is(end, ".") && behind > end + 1) end = behind;
  if (!is(end, "eE")) return end;
  const std::size_t exponent = is(end + 1, "+-") ? end + 2 : end + 1, behind = behind_digits(exponent);
  return behind > exponent ? behind : end;
}

// Without a plus in front, too.
std::string without_leading_zeros(std::string_view number) {
  const std::string sign = number.front() == '-' ? "-" : "";
  if (number.front() == '-' || number.front() == '+') number.remove_prefix(1);
  while (number.size() > 1 && number[0] == '0' && is_digit(number[1])) number.remove_prefix(1);
  return sign + std::string(number);
}

// The message for text that does not start with a decimal number, or continues with a common mistake.
std::string strange_number(std::string_view text, std::string_view expected) {
  const std::string small = lower_case(text);
  for (const std::string_view word : {"inf", ".inf", "-.inf", "+.inf", "-inf", "+inf", "nan", ".nan", "infinity"})
    if (small == word || small.rfind(std::string(word) + " ", 0) == 0) return fmt::format("'{}' is not a finite number", text);
  if (text.empty()) return "the text is empty";
  return fmt::format("'{}' is not {}", text, expected);
}

struct NumberAndRest {
  long double value = 0;
  std::string_view number, rest;
  std::string problem;
};

NumberAndRest split_number(std::string_view text, std::string_view expected) {
  NumberAndRest result;
  const std::size_t length = number_length(text);
  if (length == 0) {
    result.problem = strange_number(text, expected);
    return result;
  }
  result.number = text.substr(0, length);
  result.rest = trimmed(text.substr(length), kBlanks);
  const std::string number = without_leading_zeros(result.number);
  if (number.size() + (result.number.front() == '+' ? 1 : 0) < result.number.size()) {
    result.problem = fmt::format("'{}' has a leading zero; numbers are decimal, write '{}'", result.number, number);
    return result;
  }
  if (!result.rest.empty() && std::string_view("0123456789_,.x").find(result.rest.front()) != std::string_view::npos) {
    result.problem =
        fmt::format("'{}' is not a number; write digits, a decimal point and an exponent only, as in '1500' or '1.5e3'", text);
    return result;
  }
  // libc++ has no std::from_chars for it; number_length() has read the digits already.
  errno = 0;
  result.value = std::strtold(number.c_str(), nullptr);
  if (errno == ERANGE || !std::isfinite(static_cast<double>(result.value)))
    result.problem = fmt::format("'{}' is out of range", text);
  return result;
}

std::string no_unit(const NumberAndRest& parts, const Kind& kind) {
  std::vector<std::string> examples;
  for (const std::string_view unit : kind.usual)
    if (!unit.empty()) examples.push_back(fmt::format("{} {}", parts.number, unit));
  if (&kind == &kFraction && parts.value > 0 && parts.value <= 1)
    examples = {fmt::format("{} %", static_cast<double>(parts.value * 100))};
  return fmt::format("'{}' has no unit; write {}", parts.number, either(examples));
}

std::string wrong_unit(const NumberAndRest& parts, std::string_view text, const Kind& kind) {
  std::vector<std::string> names;
  for (const Unit& unit : kind.units) names.emplace_back(unit.name);
  for (const Kind* other : {&kDuration, &kBytes, &kBandwidth, &kComputeRate, &kFlops, &kFraction, &kPower, &kCarbon})
    for (const Unit& unit : other->units)
      if (unit.name == parts.rest)
        return fmt::format("'{}' is {}, where {} is expected, as in '{} {}'", text, other->article_and_name,
                           kind.article_and_name, parts.number, kind.usual.front());
  const std::string all = fmt::format("; {} is given in {}", kind.article_and_name, fmt::join(names, ", "));
  return fmt::format("unknown unit '{}'{}", parts.rest, suggestion(parts.rest, names, all));
}

// The value in the base unit.
Parsed<long double> parse_in(const Kind& kind, std::string_view text) {
  text = trimmed(text, kBlanks);
  if (text == "unlimited") return {{}, "'unlimited' is for bandwidths only"};
  const std::string example = fmt::format("{} {}", &kind == &kFraction ? 85 : 24, kind.usual.front());
  NumberAndRest parts = split_number(text, fmt::format("{}; write it as in '{}'", kind.article_and_name, example));
  if (!parts.problem.empty()) return {{}, parts.problem};
  if (parts.rest.empty()) {
    if (parts.value == 0) return {0.0L, ""};
    return {{}, no_unit(parts, kind)};
  }
  for (const Unit& unit : kind.units)
    if (unit.name == parts.rest) return inside(parts.value * unit.factor, kind.limits, text);
  return {{}, wrong_unit(parts, text, kind)};
}

// --- to text ---

std::string without_trailing_zeros(std::string number) {
  if (number.find('.') == std::string::npos) return number;
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return number;
}

// Three to four significant digits: three decimals below ten, one from there on.
std::string short_number(double value) {
  return without_trailing_zeros(fmt::format("{:.{}f}", value, std::abs(value) < 9.9995 ? 3 : 1));
}

// Units from large to small; the first that leaves at least 1 (after rounding) is taken, else the last.
std::string scaled(double value, std::initializer_list<std::pair<double, std::string_view>> units) {
  if (std::isnan(value)) return fmt::format("nan {}", (units.end() - 1)->second);
  if (std::isinf(value)) return fmt::format("{} {}", value > 0 ? "infinite" : "-infinite", units.begin()->second);
  for (const auto& [factor, name] : units)
    if (std::abs(value) / factor >= 0.99995) return fmt::format("{} {}", short_number(value / factor), name);
  const auto& [factor, name] = *(units.end() - 1);
  const double small = value / factor;
  if (value != 0 && std::abs(small) < 0.0005) return fmt::format("{:.3g} {}", small, name);
  return fmt::format("{} {}", short_number(small), name);
}

// The unit in which the shortest round-trip number is shortest and parses back to exactly `value`.
template <class T, class Parse>
std::string exact(double value, const Kind& kind, Parse parse, const T& original) {
  std::string best;
  for (const Unit& unit : kind.units) {
    const double number = static_cast<double>(static_cast<long double>(value) / unit.factor);
    const std::string text = fmt::format("{} {}", number, unit.name);
    if (!best.empty() && text.size() >= best.size()) continue;  // before it is read back, which costs more
    const auto back = parse(text);
    if (back.value && *back.value == original) best = text;
  }
  return best.empty() ? fmt::format("{} {}", value, kind.units.front().name) : best;
}

}  // namespace

Parsed<Duration> parse_duration(std::string_view text) { return parsed_as<Duration>(parse_in(kDuration, text)); }
Parsed<ComputeRate> parse_compute_rate(std::string_view text) { return parsed_as<ComputeRate>(parse_in(kComputeRate, text)); }
Parsed<double> parse_fraction(std::string_view text) { return parsed_as<double>(parse_in(kFraction, text)); }

Parsed<Bandwidth> parse_bandwidth(std::string_view text) {
  if (trimmed(text, kBlanks) == "unlimited") return {Bandwidth(std::numeric_limits<double>::infinity()), ""};
  return parsed_as<Bandwidth>(parse_in(kBandwidth, text));
}

Parsed<Bytes> parse_bytes(std::string_view text) {
  const Parsed<long double> parsed = parse_in(kBytes, text);
  if (!parsed.value) return {{}, parsed.problem};
  constexpr long double kLimit = 9223372036854775807.0L;
  if (std::abs(*parsed.value) >= kLimit) return {{}, fmt::format("'{}' is out of range", trimmed(text, kBlanks))};
  return {Bytes(static_cast<std::int64_t>(std::llround(*parsed.value))), ""};
}

Parsed<double> parse_number(std::string_view text) {
  text = trimmed(text, kBlanks);
  const NumberAndRest parts = split_number(text, "a number");
  if (!parts.problem.empty()) return {{}, parts.problem};
  if (!parts.rest.empty())
    return {{}, fmt::format("'{}' is not a number; this value has no unit, write '{}'", text, parts.number)};
  return parsed_as<double>(inside(parts.value, kNumberLimits, text));
}

Parsed<long long> parse_integer(std::string_view text) {
  text = trimmed(text, kBlanks);
  const NumberAndRest parts = split_number(text, "a whole number");
  if (!parts.problem.empty()) return {{}, parts.problem};
  constexpr long double kMostThousands = 1e9L;
  if ((parts.rest == "k" || parts.rest == "K") && parts.value > 0 && parts.value < kMostThousands)
    return {
        {},
        fmt::format("'{}' is not a whole number; write '{:.0f}' or '{:.0f}'", text,
                    static_cast<double>(std::round(1000 * parts.value)), static_cast<double>(std::round(1024 * parts.value)))};
  if (!parts.rest.empty())
    return {{}, fmt::format("'{}' is not a whole number; this value has no unit, write '{}'", text, parts.number)};
  std::string_view digits = parts.number;
  if (digits.front() == '+') digits.remove_prefix(1);
  long long value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status == std::errc::result_out_of_range) return {{}, fmt::format("'{}' is out of range", text)};
  if (end != digits.data() + digits.size()) {
    // "1e9", "8.0": a whole number in another spelling.
    const bool whole = std::abs(parts.value) < 1e15L && parts.value == std::floor(parts.value);
    return {{}, fmt::format("'{}' is not a whole number{}", text, whole ? fmt::format("; write '{:.0f}'", parts.value) : "")};
  }
  return {value, ""};
}

Parsed<Power> parse_power(std::string_view text) { return parsed_as<Power>(parse_in(kPower, text)); }
Parsed<double> parse_carbon_intensity(std::string_view text) { return parsed_as<double>(parse_in(kCarbon, text)); }

Parsed<Money> parse_money(std::string_view text) {
  text = trimmed(text, kBlanks);
  const NumberAndRest parts = split_number(text, "an amount of money; write it as in '2.5 USD'");
  if (!parts.problem.empty()) return {{}, parts.problem};
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (parts.rest.empty()) return {{}, fmt::format("'{}' has no currency; write '{} USD' or '{} EUR'", text, text, text)};
  if (parts.rest.size() != 3 || !std::all_of(parts.rest.begin(), parts.rest.end(), capital))
    return {{}, fmt::format("'{}' is not a currency; write three capital letters, as in '{} USD'", parts.rest, parts.number)};
  const Parsed<double> amount = parsed_as<double>(inside(parts.value, kMoneyLimits, text));
  return amount.value ? Parsed<Money>{Money{*amount.value, std::string(parts.rest)}, ""} : Parsed<Money>{{}, amount.problem};
}

Parsed<double> parse_count(std::string_view text) {
  constexpr std::pair<std::string_view, long double> kSuffixes[] = {{"", 1}, {"k", 1e3L}, {"M", 1e6L}, {"B", 1e9L}, {"T", 1e12L}};
  text = trimmed(text, kBlanks);
  const NumberAndRest parts = split_number(text, "a count; write it as in '300B'");
  if (!parts.problem.empty()) return {{}, parts.problem};
  for (const auto& [suffix, factor] : kSuffixes) {
    if (parts.rest != suffix) continue;
    const long double count = std::round(parts.value * factor);
    if (count < 1) return {{}, fmt::format("'{}' must be at least 1", text)};
    if (std::abs(parts.value * factor - count) > 1e-6L * count) return {{}, fmt::format("'{}' is not a whole count", text)};
    return parsed_as<double>(inside(count, kCountLimits, text));
  }
  return {{}, fmt::format("'{}' is not a count; after the number stands k, M, B (1e9), T (1e12) or nothing, as in '300B'", text)};
}

std::string to_text(Duration value) {
  return scaled(value.base(), {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}, {1e-12, "ps"}});
}

std::string to_text(Ticks value) { return to_text(to_duration(value)); }

std::string to_text(Bytes value) {
  return scaled(static_cast<double>(value.base()),
                {{1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1, "B"}});
}

std::string to_text(Bandwidth value) {
  if (std::isinf(value.base()) && value.base() > 0) return "unlimited";
  return scaled(value.base(), {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}});
}

std::string to_text(ComputeRate value) {
  return scaled(value.base(), {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}, {1, "FLOP/s"}});
}

std::string to_text(Flops value) {
  return scaled(value.base(),
                {{1e18, "EFLOP"}, {1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {1e3, "kFLOP"}, {1, "FLOP"}});
}

std::string exact_text(Duration value) { return exact(value.base(), kDuration, parse_duration, value); }
std::string exact_text(Bytes value) {
  std::string best = fmt::format("{} B", value.base());
  for (const Unit& unit : kBytes.units) {
    const auto factor = static_cast<std::int64_t>(unit.factor);
    const std::string text = fmt::format("{} {}", value.base() / factor, unit.name);
    if (value.base() % factor == 0 && text.size() < best.size()) best = text;
  }
  return best;
}
std::string exact_text(Bandwidth value) {
  return std::isinf(value.base()) ? "unlimited" : exact(value.base(), kBandwidth, parse_bandwidth, value);
}
std::string exact_text(ComputeRate value) { return exact(value.base(), kComputeRate, parse_compute_rate, value); }
std::string exact_text(Power value) { return exact(value.base(), kPower, parse_power, value); }

std::string long_time_text(double seconds) {
  if (seconds < 1) return to_text(Duration(seconds));
  // Up to two days are shown in hours.
  if (seconds >= 2 * 86400.0) return scaled(seconds, {{86400, "d"}});
  return scaled(seconds, {{3600, "h"}, {60, "min"}, {1, "s"}});
}

std::string time_text(double seconds) { return seconds < 600 ? to_text(Duration(seconds)) : long_time_text(seconds); }

std::string energy_text(double kwh) { return scaled(kwh, {{1e6, "GWh"}, {1e3, "MWh"}, {1, "kWh"}, {1e-3, "Wh"}}); }

std::string money_text(double amount, const std::string& currency) {
  const std::string digits = fmt::format("{:.{}f}", amount, amount < 1000 ? 2 : 0);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (amount >= 1000 && i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return currency.empty() ? text : fmt::format("{} {}", text, currency);
}

std::string count_text(double count) {
  if (count < 100 && count != std::floor(count)) return fmt::format("{:.3g}", count);
  if (count < 1e4) return fmt::format("{:.0f}", count);
  return scaled(count, {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}});
}

std::string exact_fraction_text(double value) { return exact(value, kFraction, parse_fraction, value); }

}  // namespace panpipe
