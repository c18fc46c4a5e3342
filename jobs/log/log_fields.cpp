#include "jobs/log/log_fields.hpp"

#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace panpipe::jobs {
namespace {

constexpr double kLargestCount = 1e15;

bool part_of_number(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (is_digit(c) || c == '.') return true;
  if (c == '+' || c == '-') return at == 0 || text[at - 1] == 'e' || text[at - 1] == 'E';
  if (c == 'e' || c == 'E') return at > 0;
  return c == ',' && at > 0 && is_digit(text[at - 1]) && at + 1 < text.size() && is_digit(text[at + 1]);
}

// The number and how many characters it takes.
std::optional<std::pair<double, std::size_t>> leading_number(std::string_view text) {
  char digits[40];
  std::size_t end = 0, kept = 0;
  while (end < text.size() && part_of_number(text, end)) {
    if (text[end] != ',') {
      if (kept + 1 == sizeof digits) return std::nullopt;
      digits[kept++] = text[end];
    }
    ++end;
  }
  digits[kept] = '\0';
  char* stop = nullptr;
  const double number = std::strtod(digits, &stop);
  if (kept == 0 || stop != digits + kept || !std::isfinite(number)) return std::nullopt;
  return std::pair(number, end);
}

// `width` digits at `at`; -1: something else.
int digits_at(std::string_view text, std::size_t at, std::size_t width) {
  int number = 0;
  for (std::size_t i = at; i < at + width; ++i) {
    if (i >= text.size() || !is_digit(text[i])) return -1;
    number = 10 * number + (text[i] - '0');
  }
  return number;
}

constexpr std::size_t kToSeconds = 19, kToThousandths = 23;  // characters of a stamp

// "2024-08-31 14:37:31" at the front.
std::optional<double> second_at(std::string_view text) {
  if (text.size() < kToSeconds || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') return std::nullopt;
  if (text[10] != ' ' && text[10] != 'T') return std::nullopt;
  const int year = digits_at(text, 0, 4), month = digits_at(text, 5, 2), day = digits_at(text, 8, 2);
  const int hour = digits_at(text, 11, 2), minute = digits_at(text, 14, 2), second = digits_at(text, 17, 2);
  if (year < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  const double days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

// With milliseconds: "2024-08-31 14:37:31,085".
std::optional<double> stamp_at(std::string_view text) {
  if (text.size() < kToThousandths || (text[kToSeconds] != ',' && text[kToSeconds] != '.')) return std::nullopt;
  const auto second = second_at(text);
  const int thousandth = digits_at(text, kToSeconds + 1, 3);
  return second && thousandth >= 0 ? std::optional(*second + thousandth / 1000.0) : std::nullopt;
}

// The first stamp at the front of a line, read by `at`.
template <class At>
std::optional<double> front_stamp(std::string_view line, At read) {
  constexpr std::size_t kFront = 160;  // stamps stand before the text
  const std::string_view front = line.substr(0, kFront);
  for (std::size_t at = front.find("20"); at != std::string_view::npos; at = front.find("20", at + 1))
    if (const auto stamp = read(line.substr(at))) return stamp;
  return std::nullopt;
}

}  // namespace

std::string_view after(std::string_view line, std::string_view words) {
  const std::size_t at = position_in(line, words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + words.size());
  const std::size_t front = rest.find_first_not_of(' ');
  return front == std::string_view::npos ? std::string_view() : rest.substr(front);
}

std::optional<double> number_at(std::string_view text, bool at_end) {
  const auto found = leading_number(text);
  if (!found || (!at_end && found->second >= text.size())) return std::nullopt;
  return found->first;
}

std::optional<double> number_after(std::string_view line, std::string_view words, bool at_end) {
  return number_at(after(line, words), at_end);
}

std::optional<long long> count_after(std::string_view line, std::string_view words, bool at_end) {
  const auto number = number_after(line, words, at_end);
  if (!number || *number < 0 || *number > kLargestCount || *number != std::floor(*number)) return std::nullopt;
  return static_cast<long long>(*number);
}

std::optional<double> short_number_after(std::string_view line, std::string_view words) {
  const std::string_view text = after(line, words);
  const auto found = leading_number(text);
  if (!found || found->second >= text.size()) return std::nullopt;
  switch (text[found->second]) {
    case 'K':
      return found->first * 1e3;
    case 'M':
      return found->first * 1e6;
    case 'G':
    case 'B':
      return found->first * 1e9;
    case 'T':
      return found->first * 1e12;
    default:
      return found->first;
  }
}

std::optional<double> stamp_of(std::string_view line) { return front_stamp(line, stamp_at); }

std::optional<LogClock> clock_of(const LogLine& line) {
  if (const auto own = front_stamp(line.text, second_at)) return LogClock{*own, false};
  const auto collected = second_at(line.stamp);
  return collected ? std::optional(LogClock{*collected, line.stamp.ends_with('Z')}) : std::nullopt;
}

std::optional<double> stamp_of(const LogLine& line) {
  const auto own = stamp_of(line.text);
  return own || line.stamp.empty() ? own : stamp_at(line.stamp);
}

}  // namespace panpipe::jobs
