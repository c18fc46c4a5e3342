#include "base/input/error_with_caret.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace panpipe {

namespace {

constexpr std::size_t kWidestLine = 160;  // characters of a source line that are shown

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// The characters [first, first + count) of UTF-8 text; tabs become one blank, so that the caret stands right.
std::string characters(const std::string& line, std::size_t first, std::size_t count) {
  std::string result;
  std::size_t index = 0;
  for (const char c : line) {
    if (starts_character(c)) ++index;
    if (index > first && index <= first + count) result += c == '\t' ? ' ' : c;
  }
  return result;
}

std::size_t character_count(const std::string& line) {
  std::size_t count = 0;
  for (const char c : line) count += starts_character(c) ? 1 : 0;
  return count;
}

// The source line and the caret under it; a long line is cut around the caret.
std::string excerpt(const std::string& line, const std::string& number, int column) {
  const std::size_t at = column > 0 ? static_cast<std::size_t>(column - 1) : 0;
  const std::size_t first = character_count(line) > kWidestLine && at > kWidestLine / 2 ? at - kWidestLine / 2 : 0;
  const std::string left = first > 0 ? "..." : "";
  const std::string right = character_count(line) > first + kWidestLine ? "..." : "";
  std::string text = fmt::format("{:>5} | {}{}{}", number, left, characters(line, first, kWidestLine), right);
  if (column > 0) text += fmt::format("\n      | {}^", std::string(left.size() + at - first, ' '));
  return text;
}

}  // namespace

Diagnostic render_diagnostic(const SourceText& source, bool overridden, int line, int column, const std::string& path,
                             const std::string& message, const std::string& help, std::string_view code) {
  Diagnostic made = diagnostic_of_file(source.name, message, help, code);
  made.key = path;
  if (line > 0 && line <= static_cast<int>(source.lines.size()))
    made.excerpt = excerpt(source.lines[line - 1], overridden ? "" : std::to_string(line), column);
  if (overridden) {
    made.file = "--set";
    made.override_text = source.lines.front();
    return made;
  }
  made.line = line;
  made.column = column;
  if (line > 0) made.place = fmt::format("{}:{}:{}", source.name, line, column);
  return made;
}

Diagnostic diagnostic_at_word(const SourceText& source, int line, const std::string& word, const std::string& message,
                              const std::string& help) {
  const std::size_t found = line > 0 ? source.lines[line - 1].find(word) : std::string::npos;
  const int column = found == std::string::npos ? std::min(line, 1) : static_cast<int>(found) + 1;
  return render_diagnostic(source, false, line, column, "", message, help);
}

Diagnostic diagnostic_of_file(const std::string& file, const std::string& message, const std::string& help,
                              std::string_view code) {
  return {.message = message, .help = help, .place = file, .code = code, .file = file};
}

}  // namespace panpipe
