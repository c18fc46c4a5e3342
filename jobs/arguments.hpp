// Arguments of a trainer's command line: flags and options with their values, each asked for by name; the rest is told.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/shell_words.hpp"

namespace panpipe::jobs {

class Arguments {
 public:
  // Words before the script (torchrun and its options) count too. `name` is the source in messages.
  Arguments(const std::vector<ShellWord>& words, std::string name);

  // Each marks the argument as understood. Spellings with `_` and `-` are one. The last of several wins, as argparse does.
  bool flag(const std::string& option);
  std::optional<std::string> text(const std::string& option);
  // InputError with a place for a value outside of these limits.
  std::optional<int> integer(const std::string& option, int at_least = 1, int at_most = 1 << 24);
  std::optional<double> number(const std::string& option);
  std::vector<std::string> list(const std::string& option);
  bool has(const std::string& option) const;  // does not mark

  // InputError at the argument.
  [[noreturn]] void refuse(const std::string& option, const std::string& message, const std::string& help = "") const;

  // Marks those of `names` that are there, and gives them as written; a trailing `*` stands for any rest.
  std::vector<std::string> take(const std::vector<std::string>& names);
  // What nobody asked for, with its values: "--foo 3".
  std::vector<std::string> rest() const;
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

  std::string name_;
  std::map<std::string, Given> given_;
  std::vector<std::string> order_;
  std::set<std::string> understood_;
};

}  // namespace panpipe::jobs
