#include "base/input/source_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/text/characters.hpp"

namespace panpipe {

namespace {

[[noreturn]] void fail(const std::string& file, const std::string& message, const std::string& help = "",
                       std::string_view code = code::kNotText) {
  throw InputError(std::vector<Diagnostic>{diagnostic_of_file(file, message, help, code)});
}

std::string with_plain_line_ends(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\r') {
      text += bytes[i];
    } else {
      text += '\n';
      if (i + 1 < bytes.size() && bytes[i + 1] == '\n') ++i;
    }
  }
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines = split_text(text, '\n');
  if (lines.size() > 1 && lines.back().empty()) lines.pop_back();  // behind the last line's end
  return lines;
}

// Refuses bytes that are not text, with the first such byte and its line.
void check_bytes(const std::string& text, const SourceText& source) {
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') ++line;
    if (c == 0) fail(source.name, fmt::format("this is a binary file, not text (a zero byte on line {})", line));
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
      fail(source.name, fmt::format("this is a binary file, not text (control byte 0x{:02x} on line {})", c, line));
    const std::size_t length = utf8_length(text, i);
    if (length == 0)
      fail(source.name, fmt::format("this is not UTF-8 text (byte 0x{:02x} on line {})", c, line), "save the file as UTF-8");
    i += length;
  }
}

}  // namespace

std::string read_text_file(const std::string& path, long long most) {
  std::error_code problem;
  if (path.empty()) fail("''", "a file name is empty", "", code::kNoFile);
  const auto status = std::filesystem::status(path, problem);
  if (status.type() == std::filesystem::file_type::not_found) fail(path, "there is no such file", "", code::kNoFile);
  if (problem && !std::filesystem::exists(status))
    fail(path, fmt::format("the file cannot be read: {}", problem.message()), "", code::kNoFile);
  if (std::filesystem::is_directory(status)) fail(path, "this is a folder, not a file", "", code::kNoFile);
  std::optional<std::string> text = input_bytes(path, most);
  if (!text) fail(path, fmt::format("the file cannot be read: {}", std::strerror(errno)), "", code::kNoFile);
  if (static_cast<long long>(text->size()) > most)
    fail(path, fmt::format("the file is larger than {} MiB", most >> 20), "", code::kOutOfRange);
  report_file_read(path);
  return std::move(*text);
}

std::string reference_folder(const std::string& path) {
  if (path == "/dev/stdin" || path.starts_with("/dev/fd/")) return "";
  return std::filesystem::path(path).parent_path().string();
}

std::string checked_text(const std::string& bytes, SourceText& source) {
  std::string_view view = bytes;
  if (view.substr(0, 2) == "\xFF\xFE" || view.substr(0, 2) == "\xFE\xFF")
    fail(source.name, "this is UTF-16 text", "save the file as UTF-8");
  if (view.substr(0, 3) == "\xEF\xBB\xBF") view.remove_prefix(3);
  std::string text = with_plain_line_ends(view);
  check_bytes(text, source);
  source.lines = split_lines(text);
  return text;
}

int ColumnCursor::column(int line, int byte_offset) {
  if (line < 1 || line > static_cast<int>(source_->lines.size())) return byte_offset + 1;
  if (line != line_) line_ = line, offset_ = 0, characters_ = 0;
  const std::string& text = source_->lines[line - 1];
  const auto starts = [&] { return (static_cast<unsigned char>(text[offset_]) & 0xC0U) != 0x80U; };
  const int end = std::clamp(byte_offset, 0, static_cast<int>(text.size()));
  passed_ += std::abs(end - offset_);
  for (; offset_ < end; ++offset_) characters_ += starts() ? 1 : 0;
  while (offset_ > end) {
    --offset_;
    characters_ -= starts() ? 1 : 0;
  }
  return 1 + characters_ + std::max(0, byte_offset - end);
}

int character_column(const SourceText& source, int line, int byte_offset) {
  return ColumnCursor(source).column(line, byte_offset);
}

}  // namespace panpipe
