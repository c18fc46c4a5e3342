#include "base/input/scalar_text.hpp"

#include <set>
#include <string_view>

#include "base/text/json_writer.hpp"

namespace panpipe {

namespace {

bool is_plain(const std::string& text) {
  const std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./%+- ";
  static const std::set<std::string> null_words = {"null", "Null", "NULL"};
  if (text.empty() || text.find_first_not_of(allowed) != std::string::npos || null_words.count(text) > 0) return false;
  const char first = text.front();
  const bool dash_word = first == '-' && (text.size() == 1 || text[1] == ' ' || text[1] == '-');
  return first != ' ' && first != '%' && !dash_word && text.back() != ' ' && text != "..." && text != "---";
}

}  // namespace

std::string quoted_scalar(const std::string& text) { return json_text(text); }

std::string scalar_text(const std::string& text) { return is_plain(text) ? text : quoted_scalar(text); }

}  // namespace panpipe
