#include "present/picture/markup.hpp"

#include <fmt/format.h>

#include <cmath>

namespace panpipe::present {

std::string escaped(const std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') {
      result += c;
    }
  }
  return result;
}

std::string px(double value) { return fmt::format("{:g}", std::round(value * 10) / 10); }

std::string image_address(const std::string& svg) {
  std::string address = "data:image/svg+xml,";
  for (const char c : svg) {
    if (c == '%' || c == '#' || c == '"' || c == '<' || c == '>' || c == '&') {
      address += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      address += c == '\n' ? ' ' : c;
    }
  }
  return address;
}

}  // namespace panpipe::present
