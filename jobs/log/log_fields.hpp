// Finds fields in the lines of logs. For lines of any content: what is not there, or is cut off, is nullopt.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/log/log_lines.hpp"
#include "jobs/log/run_log.hpp"

namespace panpipe::jobs {

inline constexpr double kMebibyte = 1 << 20, kGibibyte = 1 << 30, kGigabyte = 1e9;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline std::size_t position_in(std::string_view line, std::string_view words) {
  const void* found = ::memmem(line.data(), line.size(), words.data(), words.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - line.data());
}
inline bool holds(std::string_view line, std::string_view words) { return position_in(line, words) != std::string_view::npos; }

// What follows the first occurrence of `words`, without leading blanks; empty: they are not there.
std::string_view after(std::string_view line, std::string_view words);

// A number at the front of the text: digits with a point, an exponent, commas between thousands. Something must follow it, since
// the digits of a line that was cut are not all there; `at_end`: the number may be the last of the line.
std::optional<double> number_at(std::string_view text, bool at_end = false);
std::optional<double> number_after(std::string_view line, std::string_view words, bool at_end = false);
std::optional<long long> count_after(std::string_view line, std::string_view words, bool at_end = false);

// "11.5K" as 11500: three digits and K, M, G, B or T.
std::optional<double> short_number_after(std::string_view line, std::string_view words);

// Seconds since 1970 of the first "2024-08-31 14:37:31,085" (also with a point, and with T) in the line; nullopt without
// milliseconds.
std::optional<double> stamp_of(std::string_view line);
// To the second; nullopt: none is in front of the text, nor did a collector write one.
std::optional<LogClock> clock_of(const LogLine& line);
// The trainer's own, or that of the program which collected the line.
std::optional<double> stamp_of(const LogLine& line);

}  // namespace panpipe::jobs
