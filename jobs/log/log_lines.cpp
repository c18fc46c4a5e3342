#include "jobs/log/log_lines.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "jobs/log/log_fields.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::size_t kLongestMark = 64;  // of a process, at the front of a line
constexpr char kEscape = '\x1b', kBell = '\x07';

std::size_t position_of(std::string_view text, char c) {
  const void* found = text.empty() ? nullptr : std::memchr(text.data(), c, text.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// Where the escape sequence that begins at `at` ends.
std::size_t end_of_escape(std::string_view line, std::size_t at) {
  if (++at >= line.size()) return at;
  const char kind = line[at++];
  if (kind == '[') {  // parameters, then one byte from @ to ~
    while (at < line.size() && (line[at] < '@' || line[at] > '~')) ++at;
    return std::min(at + 1, line.size());
  }
  if (kind == ']') {  // a title, up to the bell or another escape
    while (at < line.size() && line[at] != kBell && line[at] != kEscape) ++at;
    if (at < line.size() && line[at] == kEscape) ++at;
    return std::min(at + 1, line.size());
  }
  return at;
}

std::string_view trimmed_front(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t");
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

bool is_name(std::string_view text) {
  const auto part_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), part_of_name) && is_digit(text.back());
}

// The mark of a process at the front and what follows it; an empty mark: there is none.
std::pair<std::string_view, std::string_view> mark_of(std::string_view line) {
  const std::string_view front = line.substr(0, kLongestMark);
  if (!front.empty() && front[0] == '[') {  // "[rank3]:", "[default7]:", "[3]:"
    const std::size_t close = front.find(']');
    if (close == std::string_view::npos || close + 1 >= front.size() || front[close + 1] != ':') return {};
    const std::string_view name = front.substr(1, close - 1);
    if (!is_name(name)) return {};
    return {name, line.substr(close + 2)};
  }
  // "3: " of srun, "worker-1: " of pdsh and kubectl: a name that ends in a digit, and one blank.
  const std::size_t colon = front.find(": ");
  if (colon == std::string_view::npos || !is_name(front.substr(0, colon))) return {};
  const std::string_view name = front.substr(0, colon);
  return {name, line.substr(colon + 1)};
}

}  // namespace

LogLines::LogLines(Source source) : source_(std::move(source)), buffer_(kBlock) {}

// More bytes behind those in the buffer; false at the end of the log.
bool LogLines::fill() {
  if (ended_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t got = source_(buffer_.data() + end_, buffer_.size() - end_);
  if (got == 0) ended_ = true;
  end_ += got;
  return got > 0;
}

bool LogLines::next_raw(std::string_view& raw) {
  for (;;) {
    const std::string_view held(buffer_.data() + begin_, end_ - begin_);
    std::size_t length = position_of(held, '\n');
    const std::size_t back = position_of(held.substr(0, length), '\r');
    if (back != std::string_view::npos) length = back;
    if (length == std::string_view::npos && held.size() <= kLongestLine && fill()) continue;
    const bool ends = length != std::string_view::npos;
    if (!ends) length = held.size();
    if (!ends && length == 0) return false;
    const bool rest = skips_, is_long = length > kLongestLine;
    const bool newline = ends && held[length] == '\n';
    skips_ = !ends && (is_long || rest);
    begin_ += length + (ends ? 1 : 0);
    if (rest) {  // of a line that was cut
      if (newline) ++number_;
      continue;
    }
    if (is_long) ++cut_;
    next_line_ = newline;
    raw = held.substr(0, std::min(length, kLongestLine));
    return true;
  }
}

bool LogLines::next(LogLine& line) {
  if (next_line_) {
    ++number_;
    next_line_ = false;
  }
  std::string_view raw;
  if (!next_raw(raw)) return false;
  if (!binary_ && position_of(raw, '\0') != std::string_view::npos) binary_ = true;
  line = split_rank(without_escapes(raw, plain_));
  line.number = number_;
  return true;
}

std::string_view without_escapes(std::string_view line, std::string& buffer) {
  std::size_t escape = position_of(line, kEscape);
  if (escape == std::string_view::npos) return line;
  buffer.clear();
  std::size_t at = 0;
  while (escape != std::string_view::npos) {
    buffer.append(line.substr(at, escape - at));
    at = end_of_escape(line, escape);
    const std::size_t next = position_of(line.substr(at), kEscape);
    escape = next == std::string_view::npos ? next : at + next;
  }
  buffer.append(line.substr(at));
  return buffer;
}

LogLine split_rank(std::string_view line) {
  const std::string_view front = trimmed_front(line);
  const auto [mark, rest] = mark_of(front);
  if (mark.empty()) return {line, "", 0};
  return {rest, mark, 0};
}

}  // namespace panpipe::jobs
