#include "jobs/shell/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/error.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {

bool begins_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

namespace {

std::string line_of_argument(const std::string& written, const std::vector<ShellWord>& values) {
  std::string text = written;
  for (const ShellWord& value : values) text += " " + value.text;
  return one_line(std::move(text));
}

}  // namespace

std::string Arguments::key_of(const std::string& option) {
  std::string key = option;
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

Arguments::Arguments(const std::vector<ShellWord>& words, std::string name, ArgumentForms forms)
    : name_(std::move(name)), forms_(std::move(forms)) {
  Given* open = nullptr;
  for (const ShellWord& word : words) {
    if (word.after_array) open = nullptr;
    if (!begins_option(word.text)) {
      if (open != nullptr)
        open->values.push_back(word);
      else if (word.stands_alone)
        note_unknown(word);
      continue;
    }
    const std::size_t equals = word.text.find('=');
    const std::string written = word.text.substr(0, equals), key = key_of(written);
    if (given_.find(key) == given_.end()) order_.push_back(key);
    Given& given = given_[key] = {written, {}, word.line, word.column};
    open = &given;
    if (equals == std::string::npos) continue;
    given.values.push_back(word.without_first(equals + 1));
  }
}

// Whether it may change more than arguments without effect.
bool Arguments::matters(const UnknownName& unknown) const {
  if (unknown.either.empty()) return true;
  for (const std::string& text : unknown.either)
    for (const ShellWord& word : shell_words(text, name_)) {
      if (word.text.rfind("${", 0) == 0) return true;
      if (begins_option(word.text) && !names_one_of(key_of(word.text.substr(0, word.text.find('='))), forms_.without_effect))
        return true;
    }
  return false;
}

void Arguments::note_unknown(const ShellWord& word) {
  std::vector<UnknownName> names;
  for (const WordPiece& piece : word.pieces)
    if (piece.unknown) names.push_back(*piece.unknown);
  if (word.pieces.empty()) {
    const std::size_t begin = word.text.find_first_not_of("${"), end = word.text.find_first_of("}/:", begin);
    names.push_back({word.text.substr(std::min(begin, word.text.size()), end - begin), word.line, name_, "", {}});
  }
  for (UnknownName& name : names) {
    const auto same = [&](const UnknownName& other) { return other.name == name.name; };
    if (std::none_of(unknown_.begin(), unknown_.end(), same)) unknown_.push_back(std::move(name));
  }
}

// Values from `from` on that may be arguments of their own.
void Arguments::note_alone(const Given& given, std::size_t from) {
  for (std::size_t i = from; i < given.values.size(); ++i) {
    const ShellWord& value = given.values[i];
    if (!value.stands_alone) continue;
    const bool harmless = std::all_of(value.pieces.begin(), value.pieces.end(),
                                      [&](const WordPiece& piece) { return !piece.unknown || !matters(*piece.unknown); });
    if (!harmless) note_unknown(value);
  }
}

bool Arguments::is_unknown(const std::string& option) const {
  const ShellWord* value = word(option);
  return value != nullptr && value->expands;
}

const ShellWord* Arguments::word(const std::string& option) const {
  const auto found = given_.find(key_of(option));
  return found == given_.end() || found->second.values.empty() ? nullptr : &found->second.values.front();
}

void Arguments::ignore(const std::string& option) { find(option); }

Arguments::Given* Arguments::find(const std::string& option) {
  const std::string key = key_of(option);
  const auto found = given_.find(key);
  if (found == given_.end()) return nullptr;
  understood_.insert(key);
  return &found->second;
}

bool Arguments::has(const std::string& option) const { return given_.find(key_of(option)) != given_.end(); }

void Arguments::refuse(const std::string& option, const std::string& message, const std::string& help) const {
  const auto found = given_.find(key_of(option));
  if (found == given_.end()) throw InputError(fmt::format("{}: {} {}", name_, option, without_controls(message)), help);
  const Given& given = found->second;
  throw InputError(fmt::format("{}:{}:{}: {} {}", name_, given.line, given.column, given.written, without_controls(message)),
                   help);
}

bool Arguments::flag(const std::string& option) {
  const Given* given = find(option);
  if (given == nullptr) return false;
  if (names_one_of(key_of(option), forms_.flags)) note_alone(*given, 0);
  return true;
}

// One value; what is not known is none.
const ShellWord* Arguments::value_of(const std::string& option) {
  Given* given = find(option);
  if (given == nullptr) return nullptr;
  if (given->values.empty()) refuse(option, "has no value");
  if (!names_one_of(key_of(option), forms_.lists)) note_alone(*given, 1);
  if (given->values.front().expands) {
    note_unknown(given->values.front());
    return nullptr;
  }
  return &given->values.front();
}

std::optional<std::string> Arguments::text(const std::string& option) {
  const ShellWord* value = value_of(option);
  return value ? std::optional(value->text) : std::nullopt;
}

std::optional<int> Arguments::integer(const std::string& option, int at_least, int at_most) {
  const ShellWord* value = value_of(option);
  if (value == nullptr) return std::nullopt;
  int number = 0;
  const char* end = value->text.data() + value->text.size();
  const auto [stop, fault] = std::from_chars(value->text.data(), end, number);
  if (fault != std::errc() || stop != end) refuse(option, fmt::format("is '{}', which is no whole number", value->text));
  if (number < at_least) refuse(option, fmt::format("is {}; it must be at least {}", number, at_least));
  if (number > at_most) refuse(option, fmt::format("is {}, more than {}", number, at_most));
  return number;
}

std::optional<double> Arguments::number(const std::string& option) {
  const ShellWord* value = value_of(option);
  if (value == nullptr) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(value->text.c_str(), &end);
  if (end != value->text.c_str() + value->text.size() || value->text.empty())
    refuse(option, fmt::format("is '{}', which is no number", value->text));
  return number;
}

std::vector<std::string> Arguments::list(const std::string& option) {
  std::vector<std::string> words;
  if (value_of(option) == nullptr) return words;
  for (const ShellWord& value : find(option)->values) words.push_back(value.text);
  return words;
}

std::vector<std::string> Arguments::take(const std::vector<std::string>& names) {
  std::vector<std::string> taken;
  for (const std::string& key : order_) {
    if (!names_one_of(key, names) || understood_.contains(key)) continue;
    understood_.insert(key);
    note_rest(key);
    taken.push_back(line_of_argument(given_.at(key).written, given_.at(key).values));
  }
  return taken;
}

std::vector<std::string> Arguments::rest() {
  std::vector<std::string> rest;
  for (const std::string& key : order_) {
    if (understood_.contains(key)) continue;
    note_rest(key);
    rest.push_back(line_of_argument(given_.at(key).written, given_.at(key).values));
  }
  return rest;
}

// Of an argument whose value does not matter: words behind it that may be others.
void Arguments::note_rest(const std::string& key) {
  if (!names_one_of(key, forms_.lists)) note_alone(given_.at(key), names_one_of(key, forms_.flags) ? 0 : 1);
}

}  // namespace panpipe::jobs
