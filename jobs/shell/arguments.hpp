// Arguments of a trainer's command line: flags and options with values, read by name. Unread ones are reported.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {

// Which arguments have no value, and which have any number of them, by names_one_of; others have one.
struct ArgumentForms {
  std::vector<std::string> flags = {}, lists = {};
  std::vector<std::string> without_effect = {};  // arguments that may come and go unknown
};

// "--name", "--name=value"; not "--", and not "-1".
bool begins_option(std::string_view word);

class Arguments {
 public:
  // Words before the script (torchrun and its options) count too. `name` identifies the source in messages.
  Arguments(const std::vector<ShellWord>& words, std::string name, ArgumentForms forms = {});

  // Each marks the argument as understood. Spellings with `_` and `-` are equal. The last occurrence applies, as in argparse.
  bool flag(const std::string& option);
  std::optional<std::string> text(const std::string& option);
  // Throws InputError with a place for a value outside the limits.
  std::optional<int> integer(const std::string& option, int at_least = 1, int at_most = 1 << 24);
  std::optional<double> number(const std::string& option);
  std::vector<std::string> list(const std::string& option);
  bool has(const std::string& option) const;  // does not mark
  // Marks an argument whose value does not matter here.
  void ignore(const std::string& option);
  // The last value of an option as a word of the script, with its place; none: absent or without a value. Does not mark.
  const ShellWord* word(const std::string& option) const;

  // Throws InputError at the argument.
  [[noreturn]] void refuse(const std::string& option, const std::string& message, const std::string& help = "") const;

  // Marks the arguments among `names` that are present, and returns them as written; a trailing `*` matches any rest.
  std::vector<std::string> take(const std::vector<std::string>& names);
  // The unread arguments with their values: "--foo 3".
  std::vector<std::string> rest();

  // What was asked for and is not known; an unknown value reads as absent.
  const std::vector<UnknownName>& unknown() const { return unknown_; }
  bool is_unknown(const std::string& option) const;
  const std::string& name() const { return name_; }

 private:
  struct Given {
    std::string written;  // "--micro-batch-size"
    std::vector<ShellWord> values;
    int line = 0, column = 0;
  };
  static std::string key_of(const std::string& option);
  Given* find(const std::string& option);
  const ShellWord* value_of(const std::string& option);
  void note_unknown(const ShellWord& word);
  void note_alone(const Given& given, std::size_t from);
  void note_rest(const std::string& key);
  bool matters(const UnknownName& unknown) const;

  std::string name_;
  ArgumentForms forms_;
  std::vector<UnknownName> unknown_;
  std::map<std::string, Given> given_;
  std::vector<std::string> order_;
  std::set<std::string> understood_;
};

}  // namespace panpipe::jobs
