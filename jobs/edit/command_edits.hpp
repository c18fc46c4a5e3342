// Edits of the arguments of a command that a script launches, where the owner wrote them: the literal behind a variable, a word
// in an array or in a string, or the command itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/edit/text_edits.hpp"
#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {

struct Argument {
  std::string option;               // "--micro-batch-size"
  std::vector<std::string> values;  // none: a flag
  bool operator==(const Argument&) const = default;
};

// A word of a command, with the bytes of the file in which its text stands.
struct PlacedWord {
  std::string text;
  int line = 1;
  std::optional<TextRange> place = {};  // none: it is computed, or stands in another file
  bool after_array = false;             // belongs to no earlier option
  std::vector<TextRange> sources = {};  // of its pieces, where it has several: "ckpt/tp$TP"
  std::optional<TextRange> value = {};  // of "--name=$VALUE": where the value stands by itself
};

// With the places that the words have in `file`: of a variable's value where the text behind it stands.
std::vector<PlacedWord> placed_words(const std::string& file, const std::vector<ShellWord>& words);

struct CommandStyle {
  bool at_use = false;  // replaces "$TP" in the command, instead of the 4 in TP=4
  bool quotes = true;   // quotes words with special characters; not so within strings
};

class CommandEdits {
 public:
  // `words` are the launched command's, with places in `text`.
  CommandEdits(std::string text, std::vector<PlacedWord> words, CommandStyle style);

  // Gives the options their values. New ones stand together behind the option `after`, if the command has that, and are written
  // in the way of their neighbours.
  void set(const std::vector<Argument>& arguments, std::string_view after);
  void remove(std::string_view option);
  // The edits, once all are known. What stands where it cannot be edited is in `by_hand`, one sentence each.
  TextEdits edits();
  const std::vector<std::string>& by_hand() const { return by_hand_; }

 private:
  struct Given {
    std::string key;
    std::size_t word = 0;             // of the option
    std::vector<std::size_t> values;  // words; the option's own for "--name=value"
    bool joined = false;              // "--name=value"
  };
  struct NewValue {
    std::size_t word;
    std::size_t from;  // characters of the word that are not the value: "--name="
    std::string text;
  };
  Given* find(std::string_view option);
  std::string word_text(const std::string& value) const;
  bool edit_literal(const NewValue& value);
  bool has_other_use(const NewValue& value, TextRange place) const;
  bool edit_use(const Given& given, const NewValue& value);
  std::optional<std::size_t> begin_of(const Given& given) const;
  TextRange range_of(const Given& given) const;
  std::size_t end_of_word(std::size_t word, std::size_t at) const;
  std::string separator_before(std::size_t begin) const;
  void insert(const std::string& written, std::string_view after);

  std::string text_;
  std::vector<PlacedWord> words_;
  CommandStyle style_;
  std::vector<Given> given_;
  std::vector<NewValue> values_;
  TextEdits edits_;
  std::vector<std::string> by_hand_;
};

}  // namespace panpipe::jobs
