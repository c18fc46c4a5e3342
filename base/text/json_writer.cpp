#include "base/text/json_writer.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/characters.hpp"

namespace panpipe {

std::string json_text(std::string_view text) {
  constexpr std::string_view kShort = "\"\\\n\t\r\b\f", kNames = "\"\\ntrbf";
  const auto is_plain = [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; };
  std::string out;
  out.reserve(text.size() + 2);
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t from = at; is_plain(text[at])) {  // most of a text: taken in one go
      while (at < text.size() && is_plain(text[at])) ++at;
      out += text.substr(from, at - from);
      continue;
    }
    const std::size_t length = utf8_length(text, at);
    if (const std::size_t known = kShort.find(text[at]); known != std::string_view::npos)
      out.append(1, '\\').append(1, kNames[known]);
    else if (static_cast<unsigned char>(text[at]) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(text[at]));
    else
      out += length > 0 ? text.substr(at, length) : "\xEF\xBF\xBD";  // U+FFFD
    at += length > 0 ? length : 1;
  }
  return out + '"';
}

std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  std::string out = fmt::format("{}", number);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

JsonWriter& JsonWriter::begin(bool is_object, JsonLayout layout) {
  const Level outer = open_.empty() ? Level{} : open_.back();
  token(is_object ? "{" : "[");
  if (outer.layout == JsonLayout::Dense) layout = JsonLayout::Dense;
  const std::size_t indent = layout == JsonLayout::Lines ? outer.indent + 2 : layout == JsonLayout::Flush ? 0 : outer.indent;
  open_.push_back({is_object, layout, indent});
  return *this;
}

JsonWriter& JsonWriter::end() {
  PANPIPE_CHECK(!open_.empty() && !open_.back().has_key, "something is open, and its last key has a value");
  const Level level = open_.back();
  open_.pop_back();
  if (!level.empty && level.layout >= JsonLayout::Lines)
    out_.append(1, '\n').append(level.indent - (level.layout == JsonLayout::Lines ? 2 : 0), ' ');
  out_ += level.is_object ? '}' : ']';
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  PANPIPE_CHECK(!open_.empty() && open_.back().is_object && !open_.back().has_key,
                "keys stand in objects, before one value each");
  before_entry();
  out_ += json_text(name) + (open_.back().layout == JsonLayout::Dense ? ":" : ": ");
  open_.back().has_key = true;
  return *this;
}

std::string JsonWriter::finish() {
  PANPIPE_CHECK(open_.empty() && !out_.empty(), "everything is closed");
  return std::exchange(out_, {});
}

JsonWriter& JsonWriter::token(std::string_view token) {
  if (open_.empty()) {
    PANPIPE_CHECK(out_.empty(), "a document is one value");
  } else if (open_.back().is_object) {
    PANPIPE_CHECK(open_.back().has_key, "values of an object have keys");
    open_.back().has_key = false;
  } else {
    before_entry();
  }
  out_ += token;
  return *this;
}

void JsonWriter::before_entry() {
  Level& level = open_.back();
  if (!level.empty) out_ += level.layout == JsonLayout::OneLine ? ", " : ",";
  if (level.layout >= JsonLayout::Lines) out_.append(1, '\n').append(level.indent, ' ');
  level.empty = false;
}

}  // namespace panpipe
