#include "jobs/shell/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {
namespace {

bool is_option(const ShellWord& word) {
  return word.text.size() > 2 && word.text.rfind("--", 0) == 0 && std::isalpha(static_cast<unsigned char>(word.text[2])) != 0;
}

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

Arguments::Arguments(const std::vector<ShellWord>& words, std::string name) : name_(std::move(name)) {
  Given* open = nullptr;
  for (const ShellWord& word : words) {
    if (word.after_array) open = nullptr;
    if (!is_option(word)) {
      if (open != nullptr) open->values.push_back(word);
      continue;
    }
    const std::size_t equals = word.text.find('=');
    const std::string written = word.text.substr(0, equals), key = key_of(written);
    if (given_.find(key) == given_.end()) order_.push_back(key);
    Given& given = given_[key] = {written, {}, word.line, word.column};
    open = &given;
    if (equals == std::string::npos) continue;
    ShellWord value = word;
    value.text = word.text.substr(equals + 1);
    given.values.push_back(std::move(value));
  }
}

Arguments::Given* Arguments::find(const std::string& option) {
  const std::string key = key_of(option);
  const auto found = given_.find(key);
  if (found == given_.end()) return nullptr;
  understood_.insert(key);
  return &found->second;
}

bool Arguments::has(const std::string& option) const { return given_.find(key_of(option)) != given_.end(); }

void Arguments::refuse(const std::string& option, const std::string& message, const std::string& help) const {
  const Given& given = given_.at(key_of(option));
  throw InputError(fmt::format("{}:{}:{}: {} {}", name_, given.line, given.column, given.written, without_controls(message)),
                   help);
}

bool Arguments::flag(const std::string& option) { return find(option) != nullptr; }

// One value; a word that a shell would expand is none.
const ShellWord* Arguments::value_of(const std::string& option) {
  Given* given = find(option);
  if (given == nullptr) return nullptr;
  if (given->values.empty()) refuse(option, "has no value");
  if (given->values.front().expands)
    refuse(option, fmt::format("is '{}', which only a shell can expand", given->values.front().text),
           "nothing is run or expanded here: write the value itself");
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
    taken.push_back(line_of_argument(given_.at(key).written, given_.at(key).values));
  }
  return taken;
}

std::vector<std::string> Arguments::rest() const {
  std::vector<std::string> rest;
  for (const std::string& key : order_)
    if (!understood_.contains(key)) rest.push_back(line_of_argument(given_.at(key).written, given_.at(key).values));
  return rest;
}

}  // namespace panpipe::jobs
