#include "base/text/text_style.hpp"

#include <algorithm>

namespace panpipe {
namespace {

// The end of what stands at `at`: a character of UTF-8, or a colour ("\x1b[32m"), which takes no column.
std::size_t end_of_character(std::string_view text, std::size_t at, bool& visible) {
  visible = text[at] != '\x1b';
  if (!visible) return std::min(text.find('m', at), text.size() - 1) + 1;
  std::size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return end;
}

// Where the line is to be broken: the last space of the first `width` columns behind `from`, or the next one.
std::size_t break_of(std::string_view line, std::size_t from, std::size_t width) {
  std::size_t best = std::string_view::npos, columns = 0;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == ' ' && at > from) {
      if (columns <= width || best == std::string_view::npos) best = at;
      if (columns > width) break;
    }
    bool visible = true;
    at = end_of_character(line, at, visible);
    columns += visible ? 1 : 0;
  }
  return best;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    bool visible = true;
    at = end_of_character(text, at, visible);
    columns += visible ? 1 : 0;
  }
  return columns;
}

std::string wrapped(const std::string& text, int width, int hanging) {
  if (width <= 0) return text;
  const auto most = static_cast<std::size_t>(width);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    const std::size_t own = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t indent = std::min(hanging >= 0 ? static_cast<std::size_t>(hanging) : own, most / 2);
    std::size_t start = own;
    while (columns_of(line) > most) {
      const std::size_t broken = break_of(line, start, most);
      if (broken == std::string::npos) break;
      std::size_t last = broken;
      while (last > 0 && line[last - 1] == ' ') --last;
      out += line.substr(0, last) + "\n";
      const std::size_t next = std::min(line.find_first_not_of(' ', broken), line.size());
      if (next == line.size()) {
        line.clear();
        break;
      }
      line = std::string(indent, ' ') + line.substr(next);
      start = indent;
    }
    out += line;
    if (end < text.size()) out += "\n";
    at = end + 1;
  }
  return out;
}

std::string shortened(const std::string& text, std::size_t columns) {
  if (columns_of(text) <= columns || columns < 8) return text;
  const std::size_t kept = columns - 3, head = (kept + 1) / 2;
  std::string out;
  std::size_t at = 0, seen = 0;
  bool visible = true;
  for (; at < text.size() && seen < head; ++seen) {
    const std::size_t end = end_of_character(text, at, visible);
    out += text.substr(at, end - at);
    at = end;
  }
  const std::size_t skipped = columns_of(text) - kept;
  for (std::size_t i = 0; i < skipped; ++i) at = end_of_character(text, at, visible);
  return out + "..." + text.substr(at);
}

}  // namespace panpipe
