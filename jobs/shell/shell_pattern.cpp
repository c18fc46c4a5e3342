#include "jobs/shell/shell_pattern.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace panpipe::jobs {
namespace {

// [:alpha:] and its like, of ASCII.
bool is_of_class(unsigned char c, std::string_view name) {
  static constexpr std::pair<std::string_view, int (*)(int)> kClasses[] = {
      {"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank}, {"cntrl", std::iscntrl},
      {"digit", std::isdigit}, {"graph", std::isgraph}, {"lower", std::islower}, {"print", std::isprint},
      {"punct", std::ispunct}, {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit}};
  return c < 0x80 && std::any_of(std::begin(kClasses), std::end(kClasses),
                                 [&](const auto& one) { return one.first == name && one.second(c); });
}

// "[.-.]" or "[=a=]" at `at` within a set: a character by itself, in brackets of its kind.
bool is_symbol(std::string_view pattern, std::size_t at, char kind) {
  return at + 5 <= pattern.size() && pattern[at] == '[' && pattern[at + 1] == kind && pattern[at + 3] == kind &&
         pattern[at + 4] == ']';
}

// Where the set ends that begins at `at`, if it holds `c`; 0: it does not. A bracket that is not closed is itself.
std::size_t matched_set(std::string_view pattern, std::size_t at, unsigned char c) {
  const std::size_t begin = at++;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  const auto letter = [&] {
    if (is_symbol(pattern, at, '.')) return static_cast<unsigned char>(pattern[(at += 5) - 3]);
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    return static_cast<unsigned char>(pattern[at++]);
  };
  bool held = false;
  for (const std::size_t first = at; at < pattern.size();) {
    if (pattern[at] == ']' && at > first) return held != negated ? at + 1 : 0;
    if (pattern.substr(at, 2) == "[:") {
      if (const std::size_t end = pattern.find(":]", at + 2); end != std::string_view::npos) {
        held |= is_of_class(c, pattern.substr(at + 2, end - at - 2));
        at = end + 2;
        continue;
      }
    }
    if (is_symbol(pattern, at, '=')) {  // of no range
      held |= static_cast<unsigned char>(pattern[at + 2]) == c;
      at += 5;
      continue;
    }
    const unsigned char low = letter();
    const bool range = at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']';
    if (range) ++at;
    const unsigned char high = range ? letter() : low;
    held |= low <= c && c <= high;
  }
  return c == '[' ? begin + 1 : 0;
}

// The same of the element, no star, that stands at `at`.
std::size_t matched_element(std::string_view pattern, std::size_t at, char c) {
  if (pattern[at] == '[') return matched_set(pattern, at, static_cast<unsigned char>(c));
  if (pattern[at] == '?') return at + 1;
  if (pattern[at] == '\\' && ++at == pattern.size()) return 0;
  return pattern[at] == c ? at + 1 : 0;
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t at = 0, star = 0, kept = 0;  // behind the last star, 0: none; the text that is left to it
  for (std::size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at, kept = i;
    } else if (const std::size_t end = at < pattern.size() ? matched_element(pattern, at, text[i]) : 0; end > 0) {
      at = end, ++i;
    } else if (star > 0) {
      at = star, i = ++kept;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

bool names_character(std::string_view pattern) {
  bool in_set = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i], next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      ++i;
    } else if (in_set && c == '[' && (next == '.' || next == '=')) {
      if (!is_symbol(pattern, i, next)) return pattern.find(std::string{next, ']'}, i + 2) != std::string_view::npos;
      i += 4;
    } else if (c == '[' || c == ']') {
      in_set = c == '[';
    }
  }
  return false;
}

bool is_extended_pattern(std::string_view pattern) {
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == '\\')
      ++i;
    else if (pattern[i + 1] == '(' && std::string_view("?*+@!").find(pattern[i]) != std::string_view::npos)
      return true;
  }
  return names_character(pattern);
}

}  // namespace panpipe::jobs
