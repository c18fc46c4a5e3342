#include "jobs/shell/shell_pattern.hpp"

#include <cctype>

namespace panpipe::jobs {
namespace {

bool in_class(std::string_view name, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (name == "digit") return std::isdigit(byte) != 0;
  if (name == "alpha") return std::isalpha(byte) != 0;
  if (name == "alnum") return std::isalnum(byte) != 0;
  if (name == "space") return std::isspace(byte) != 0;
  if (name == "upper") return std::isupper(byte) != 0;
  if (name == "lower") return std::islower(byte) != 0;
  return false;
}

// The end of the set that begins at `at`; npos: the bracket is a character.
std::size_t end_of_set(std::string_view pattern, std::size_t at) {
  std::size_t i = at + 1;
  if (i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^')) ++i;
  if (i < pattern.size() && pattern[i] == ']') ++i;
  for (; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) == "[:") {
      i = pattern.find(":]", i + 2);
      if (i == std::string_view::npos) return i;
      ++i;
    } else if (pattern[i] == ']') {
      return i;
    }
  }
  return std::string_view::npos;
}

bool set_holds(std::string_view set, char c) {
  bool negated = false;
  if (!set.empty() && (set[0] == '!' || set[0] == '^')) negated = true, set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (set.substr(i, 2) == "[:") {
      const std::size_t end = set.find(":]", i + 2);
      found |= in_class(set.substr(i + 2, end - i - 2), c);
      i = end + 1;
      continue;
    }
    if (set[i] == '\\' && i + 1 < set.size()) ++i;
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found |= set[i] <= c && c <= set[i + 2];
      i += 2;
    } else {
      found |= set[i] == c;
    }
  }
  return found != negated;
}

// Whether the element of the pattern at `at` matches the character; moves `at` behind it.
bool element_matches(std::string_view pattern, std::size_t& at, char c) {
  if (pattern[at] == '?') return ++at, true;
  if (pattern[at] == '[') {
    const std::size_t end = end_of_set(pattern, at);
    if (end != std::string_view::npos) {
      const std::string_view set = pattern.substr(at + 1, end - at - 1);
      at = end + 1;
      return set_holds(set, c);
    }
  }
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return pattern[at++] == c;
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t i = 0, p = 0, star = std::string_view::npos, restart = 0;
  while (i < text.size()) {
    std::size_t next = p;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      restart = i;
    } else if (p < pattern.size() && element_matches(pattern, next, text[i])) {
      p = next;
      ++i;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      i = ++restart;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool is_extended_pattern(std::string_view pattern) {
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == '\\')
      ++i;
    else if (pattern[i + 1] == '(' && std::string_view("?*+@!").find(pattern[i]) != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace panpipe::jobs
