#include "jobs/edit/command_edits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "jobs/job.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The end of a word of a shell that begins at `at`, as it is written: quotes and substitutions belong to it.
std::size_t end_of_raw_word(std::string_view text, std::size_t at) {
  char quote = 0;
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == '\'') {
      if (c == '\'') quote = 0;
      continue;
    }
    if (c == '\\') {
      if (at + 1 < text.size() && (text[at + 1] == '\n' || text[at + 1] == '\r') && quote == 0) return at;
      ++at;
      continue;
    }
    if (c == '(' || c == '{') ++depth;
    if (c == ')' || c == '}') {
      if (depth == 0) return at;
      --depth;
    }
    if (quote == '"') {
      if (c == '"') quote = 0;
      continue;
    }
    if (depth == 0 && (is_blank(c) || c == ';' || c == '&' || c == '|')) return at;
    if (c == '\'' || c == '"') {
      const bool closes = text.find(c, at + 1) == std::string_view::npos;  // a string around the word ends here
      if (closes) return at;
      quote = c;
    }
  }
  return at;
}

// Behind blanks and continued lines.
std::size_t skip_separator(std::string_view text, std::size_t at) {
  for (; at < text.size(); ++at) {
    const bool continues = text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '\n' || text[at + 1] == '\r');
    if (!is_blank(text[at]) && !continues) break;
  }
  return at;
}

std::size_t begin_of_separator(std::string_view text, std::size_t at) {
  for (; at > 0; --at) {
    const bool continues = text[at - 1] == '\\' && at < text.size() && (text[at] == '\n' || text[at] == '\r');
    if (!is_blank(text[at - 1]) && !continues) break;
  }
  return at;
}

}  // namespace

std::vector<PlacedWord> placed_words(const std::string& file, const std::vector<ShellWord>& words) {
  std::vector<PlacedWord> placed;
  for (const ShellWord& word : words) {
    placed.push_back({word.text, word.line, std::nullopt, word.after_array});
    for (const WordPiece& piece : word.pieces)
      if (piece.place && piece.place->file == file) placed.back().sources.push_back({piece.place->begin, piece.place->end});
    const auto range = [&](std::size_t from) -> std::optional<TextRange> {
      const auto place = word.place(from);
      return place && place->file == file ? std::optional(TextRange{place->begin, place->end}) : std::nullopt;
    };
    placed.back().place = range(0);
    const std::size_t equals = word.text.find('=');
    if (begins_option(word.text) && equals != std::string::npos) placed.back().value = range(equals + 1);
  }
  return placed;
}

CommandEdits::CommandEdits(std::string text, std::vector<PlacedWord> words, CommandStyle style)
    : text_(std::move(text)), words_(std::move(words)), style_(style), edits_(text_) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::string& word = words_[i].text;
    if (!begins_option(word)) {
      if (!given_.empty() && !given_.back().joined && !words_[i].after_array) given_.back().values.push_back(i);
      continue;
    }
    const std::size_t equals = word.find('=');
    std::string key = word.substr(0, equals);
    std::replace(key.begin(), key.end(), '_', '-');
    given_.push_back({std::move(key), i, {}, equals != std::string::npos});
    if (given_.back().joined) given_.back().values.push_back(i);
  }
}

CommandEdits::Given* CommandEdits::find(std::string_view option) {
  const auto last = std::find_if(given_.rbegin(), given_.rend(), [&](const Given& given) { return given.key == option; });
  return last == given_.rend() ? nullptr : &*last;
}

std::string CommandEdits::word_text(const std::string& value) const { return style_.quotes ? shell_word(value) : value; }

void CommandEdits::set(const std::vector<Argument>& arguments, std::string_view after) {
  std::string added;
  for (const Argument& argument : arguments) {
    Given* given = find(argument.option);
    if (given == nullptr || given->values.size() != argument.values.size()) {
      if (given != nullptr) remove(argument.option);
      added += (added.empty() ? "" : " ") + argument.option;
      for (const std::string& value : argument.values) added.append(1, ' ').append(word_text(value));
      continue;
    }
    for (std::size_t i = 0; i < given->values.size(); ++i) {
      const std::size_t from = given->joined ? words_[given->word].text.find('=') + 1 : 0;
      if (words_[given->values[i]].text.substr(from) != argument.values[i])
        values_.push_back({given->values[i], from, argument.values[i]});
    }
  }
  if (!added.empty()) insert(added, after);
}

void CommandEdits::remove(std::string_view option) {
  for (const Given& given : given_) {
    if (given.key != option) continue;
    const TextRange range = range_of(given);
    if (range.begin == range.end) {
      by_hand_.push_back(fmt::format("line {}: take out {}", words_[given.word].line, option));
      continue;
    }
    // With what separates it from the word before; at the start of an array or a string, from the word behind.
    std::size_t begin = begin_of_separator(text_, range.begin), end = range.end;
    const bool first = begin == 0 || text_[begin - 1] == '(' || text_[begin - 1] == '"' || text_[begin - 1] == '\'';
    if (first) {
      begin = range.begin;
      end = skip_separator(text_, range.end);
      if (end < text_.size() && text_[end] == ')') end = range.end;
    }
    edits_.remove({begin, end});
  }
}

// From the option to its last value, where these stand behind each other in the file.
TextRange CommandEdits::range_of(const Given& given) const {
  const auto begin = begin_of(given);
  if (!begin) return {};
  std::size_t end = end_of_word(given.word, *begin);
  if (!given.joined)
    for (const std::size_t value : given.values) end = end_of_word(value, skip_separator(text_, end));
  return {*begin, end};
}

// Where the option's name is written.
std::optional<std::size_t> CommandEdits::begin_of(const Given& given) const {
  const PlacedWord& option = words_[given.word];
  if (option.place) return option.place->begin;
  return given.joined && !option.sources.empty() ? std::optional(option.sources.front().begin) : std::nullopt;
}

// Of a word that is written at `at`: where its own text ends, if that stands there; else of what stands for it, "$TP".
std::size_t CommandEdits::end_of_word(std::size_t word, std::size_t at) const {
  const auto& place = words_[word].place;
  const bool quoted = at < text_.size() && (text_[at] == '"' || text_[at] == '\'');
  if (!place || place->begin != at + (quoted ? 1 : 0)) return end_of_raw_word(text_, at);
  return place->end + (quoted ? 1 : 0);
}

// Other words have these bytes too, and would change with them.
bool CommandEdits::has_other_use(const NewValue& value, TextRange place) const {
  const auto meets = [&](const TextRange& other) { return other.end > place.begin && place.end > other.begin; };
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const PlacedWord& other = words_[i];
    const bool shares = std::any_of(other.sources.begin(), other.sources.end(), meets) || (other.place && meets(*other.place));
    if (i == value.word || !shares) continue;
    const bool same = std::any_of(values_.begin(), values_.end(), [&](const NewValue& one) {
      return one.word == i && one.text == value.text && one.from == value.from;
    });
    if (!same) return true;
  }
  return false;
}

// Where the text of the value stands: with a variable, where that one is assigned. Not if other words have it too.
bool CommandEdits::edit_literal(const NewValue& value) {
  auto place = words_[value.word].place;
  if (place)
    place->begin += value.from;
  else
    place = words_[value.word].value;
  if (!place) return false;
  if (has_other_use(value, *place)) return false;
  const std::string_view old(text_.data() + place->begin, place->end - place->begin);
  const bool quoted = old.size() > 1 && (old.front() == '"' || old.front() == '\'') && old.back() == old.front();
  if (quoted) ++place->begin, --place->end;  // the quotes stay
  edits_.replace(*place, quoted ? value.text : word_text(value.text));
  return true;
}

// The word as the command, the array or the string has it, behind the option.
bool CommandEdits::edit_use(const Given& given, const NewValue& value) {
  const auto option = begin_of(given);
  if (!option) return false;
  std::size_t begin = *option + value.from;
  if (!given.joined) {
    begin = end_of_word(given.word, *option);
    for (const std::size_t word : given.values) {
      begin = skip_separator(text_, begin);
      if (word == value.word) break;
      begin = end_of_word(word, begin);
    }
  }
  const TextRange range{begin, end_of_word(value.word, begin)};
  if (range.begin == range.end || text_.substr(range.begin, range.end - range.begin).find("((") != std::string::npos)
    return false;
  edits_.replace(range, word_text(value.text));
  return true;
}

TextEdits CommandEdits::edits() {
  for (const NewValue& value : values_) {
    const auto given = std::find_if(given_.begin(), given_.end(), [&](const Given& one) {
      return std::find(one.values.begin(), one.values.end(), value.word) != one.values.end();
    });
    const bool done = (!style_.at_use && edit_literal(value)) || edit_use(*given, value);
    if (!done)
      by_hand_.push_back(fmt::format("line {}: {} is computed or stands in another file; write {}", words_[value.word].line,
                                     given->key, value.text));
  }
  return edits_;
}

// What separates a word from the one before, if a new word can stand behind it too: blanks, continued lines, lines of an array.
std::string CommandEdits::separator_before(std::size_t begin) const {
  const std::size_t start = begin_of_separator(text_, begin);
  if (start == begin || start == 0) return " ";
  const char before = text_[start - 1];
  const bool first = before == '(' || before == '"' || before == '\'';
  std::string separator = text_.substr(start, begin - start);
  return first && separator.find('\n') == std::string::npos ? " " : separator;
}

void CommandEdits::insert(const std::string& written, std::string_view after) {
  const Given* anchor = find(after);
  if (anchor == nullptr || range_of(*anchor).begin == range_of(*anchor).end) {
    // Behind the last argument that stands in this file.
    anchor = nullptr;
    for (const Given& given : given_)
      if (const TextRange range = range_of(given); range.begin < range.end) anchor = &given;
  }
  if (anchor == nullptr) {
    by_hand_.push_back(fmt::format("add {}", written));
    return;
  }
  const TextRange range = range_of(*anchor);
  edits_.insert(range.end, separator_before(range.begin) + written);
}

}  // namespace panpipe::jobs
