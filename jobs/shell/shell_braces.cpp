#include "jobs/shell/shell_braces.hpp"

#include <charconv>
#include <cstdlib>
#include <optional>

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostWords = 1000;
constexpr int kMostBraces = 20;

std::optional<long long> whole_number(const std::string& text) {
  long long value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fits = value >= -1000000 && value <= 1000000;
  return fault == std::errc() && end == text.data() + text.size() && !text.empty() && fits ? std::optional(value) : std::nullopt;
}

// {first..last} and {first..last..step}
std::vector<std::string> sequence(const std::string& inner) {
  const std::size_t dots = inner.find("..");
  if (dots == std::string::npos) return {};
  std::string last = inner.substr(dots + 2);
  long long step = 1;
  if (const std::size_t more = last.find(".."); more != std::string::npos) {
    step = std::llabs(whole_number(last.substr(more + 2)).value_or(0));
    last.resize(more);
  }
  const auto from = whole_number(inner.substr(0, dots)), to = whole_number(last);
  if (!from || !to || step == 0 || static_cast<std::size_t>(std::llabs(*to - *from) / step) >= kMostWords) return {};
  std::vector<std::string> words;
  for (long long i = *from; *from <= *to ? i <= *to : i >= *to; i += *from <= *to ? step : -step)
    words.push_back(std::to_string(i));
  return words;
}

// Parts between commas that no inner brace holds.
std::vector<std::string> alternatives(const std::string& inner) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : inner) {
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts.size() > 1 ? parts : sequence(inner);
}

std::size_t closing(const std::string& word, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < word.size(); ++i) {
    if (word[i] == '{') ++depth;
    if (word[i] == '}' && --depth == 0) return i;
  }
  return std::string::npos;
}

void expand_into(const std::string& word, std::size_t from, int depth, std::vector<std::string>& words) {
  if (words.size() >= kMostWords) return;
  for (std::size_t open = word.find('{', from); open != std::string::npos && depth < kMostBraces;
       open = word.find('{', open + 1)) {
    const std::size_t close = closing(word, open);
    if (close == std::string::npos) break;
    const std::vector<std::string> parts = alternatives(word.substr(open + 1, close - open - 1));
    if (parts.empty()) continue;
    for (const std::string& part : parts)
      expand_into(word.substr(0, open) + part + word.substr(close + 1), open, depth + 1, words);
    return;
  }
  words.push_back(word);
}

}  // namespace

std::vector<std::string> expanded_braces(const std::string& word) {
  if (word.find('{') == std::string::npos || word.size() > 4096) return {};
  std::vector<std::string> words;
  expand_into(word, 0, 0, words);
  if (words.size() == 1 && words[0] == word) return {};
  return words;
}

}  // namespace panpipe::jobs
