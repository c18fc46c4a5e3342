// JSON written in a fixed order and with the fewest digits that read back as the same number, so that equal results are equal
// bytes.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace panpipe::json {

inline std::string text(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

// null for what is not finite: JSON has no word for it.
inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

inline std::string number(std::int64_t value) { return fmt::format("{}", value); }

inline std::string_view boolean(bool value) { return value ? "true" : "false"; }

}  // namespace panpipe::json
