#include "jobs/log/log_lines.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "jobs/log/log_fields.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::size_t kLongestMark = 96;  // at the front of a line
constexpr int kMostMarks = 4;
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

// A mark at the front and what follows it; an empty mark: there is none.
using Marked = std::pair<std::string_view, std::string_view>;

// "(RayTrainWorker pid=75298, ip=10.0.0.1) ".
Marked ray_mark(std::string_view front, std::string_view line) {
  const std::size_t close = front.find(')');
  if (close == std::string_view::npos || !holds(front.substr(0, close), "pid=")) return {};
  return {front.substr(1, close - 1), line.substr(close + 1)};
}

// "trainer-1  | "; an empty line of it ends with the bar.
Marked compose_mark(std::string_view front, std::string_view line) {
  const std::size_t bar = front.find(" |");
  if (bar == std::string_view::npos || (bar + 2 < line.size() && line[bar + 2] != ' ')) return {};
  const std::string_view name = front.substr(0, front.find(' '));
  if (!is_name(name) || front.substr(name.size(), bar - name.size()).find_first_not_of(' ') != std::string_view::npos) return {};
  return {name, line.substr(bar + 2)};
}

Marked process_mark(std::string_view line) {
  const std::string_view front = line.substr(0, kLongestMark);
  if (!front.empty() && front[0] == '(') return ray_mark(front, line);
  if (!front.empty() && front[0] == '[') {  // "[rank3]:", "[default7]:", "[3]:"
    const std::size_t close = front.find(']');
    if (close == std::string_view::npos || close + 1 >= front.size() || front[close + 1] != ':') return {};
    const std::string_view name = front.substr(1, close - 1);
    if (!is_name(name)) return {};
    return {name, line.substr(close + 2)};
  }
  // "3: " of srun, "worker-1: " of pdsh and kubectl: a name that ends in a digit, and one blank.
  const std::size_t colon = front.find(": ");
  if (colon == std::string_view::npos || !is_name(front.substr(0, colon))) return compose_mark(front, line);
  return {front.substr(0, colon), line.substr(colon + 1)};
}

// "2024-05-01T10:00:00.123456789Z " and "2024-05-01T10:00:00+02:00 ".
Marked stamp_mark(std::string_view line) {
  constexpr std::size_t kTime = 10;  // where the T is
  if (line.size() < 2 * kTime || line[kTime] != 'T' || !is_digit(line[0]) || line[4] != '-') return {};
  const std::size_t end = line.substr(0, kLongestMark).find(' ');
  if (end == std::string_view::npos || (line[end - 1] != 'Z' && !is_digit(line[end - 1]))) return {};
  return {line.substr(0, end), line.substr(end)};
}

// The character that "\\n" and its like stand for; those of other letters are left out.
char escaped(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
    case '/':
      return letter;
    default:
      return '\0';
  }
}

// Decodes the JSON string that begins behind its quote, and returns where its closing quote is; npos: it does not end.
std::size_t decode_string(std::string_view text, std::string& into) {
  into.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') return i;
    if (text[i] != '\\') {
      into += text[i];
      continue;
    }
    if (++i >= text.size()) break;
    if (text.substr(i, 5) == "u001b" || text.substr(i, 5) == "u001B") {
      into += kEscape;
      i += 4;
    } else if (const char c = escaped(text[i]); c != '\0') {
      into += c;
    }
  }
  return std::string_view::npos;
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

bool LogLines::next_text(std::string_view& text) {
  if (unwrapped_rest_.empty()) {
    std::string_view raw;
    if (!next_raw(raw)) return false;
    if (!binary_ && position_of(raw, '\0') != std::string_view::npos) binary_ = true;
    unwrapped_rest_ = without_json(raw, unwrapped_);
    if (unwrapped_rest_.data() == raw.data()) {
      text = std::exchange(unwrapped_rest_, {});
      return true;
    }
  }
  const std::size_t end = std::min(unwrapped_rest_.find('\r'), unwrapped_rest_.size());
  text = unwrapped_rest_.substr(0, end);
  unwrapped_rest_.remove_prefix(std::min(end + 1, unwrapped_rest_.size()));
  return true;
}

bool LogLines::next(LogLine& line) {
  if (next_line_ && unwrapped_rest_.empty()) {
    ++number_;
    next_line_ = false;
  }
  std::string_view text;
  if (!next_text(text)) return false;
  line = split_marks(without_escapes(text, plain_));
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

std::string_view without_json(std::string_view line, std::string& buffer) {
  std::string_view text = trimmed_front(line);
  if (text.empty() || (text[0] != '"' && text[0] != '{')) return line;
  const bool wrapped = text[0] == '{';
  if (wrapped) {
    constexpr std::string_view kLog = "{\"log\":";
    if (text.substr(0, kLog.size()) != kLog) return line;
    text = trimmed_front(text.substr(kLog.size()));
    if (text.empty() || text[0] != '"') return line;
  }
  text.remove_prefix(1);
  const std::size_t end = decode_string(text, buffer);
  if (end == std::string_view::npos || buffer.empty()) return line;
  const std::string_view rest = text.substr(end + 1);
  // A notebook's strings are lines; others are values of somebody's JSON.
  if (!wrapped && (buffer.back() != '\n' || (!rest.empty() && rest != ","))) return line;
  while (!buffer.empty() && (buffer.back() == '\n' || buffer.back() == '\r')) buffer.pop_back();
  return buffer;
}

LogLine split_marks(std::string_view line) {
  LogLine split{line, "", "", 0};
  for (int marks = 0; marks < kMostMarks; ++marks) {
    const std::string_view front = trimmed_front(split.text);
    if (front.empty()) break;
    if (front[0] == '>') {
      split.text = front.substr(1);
    } else if (const auto [stamp, behind] = stamp_mark(front); !stamp.empty()) {
      split.stamp = stamp, split.text = behind;
    } else if (const auto [mark, rest] = process_mark(front); !mark.empty()) {
      // Several are one: "node-0: [rank3]:".
      const char* begin = split.rank.empty() ? mark.data() : split.rank.data();
      split.rank = {begin, static_cast<std::size_t>(mark.data() + mark.size() - begin)};
      split.text = rest;
    } else {
      break;
    }
  }
  return split;
}

}  // namespace panpipe::jobs
