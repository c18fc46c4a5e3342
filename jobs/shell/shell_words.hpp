// Words of a command line, and the plain split of a text into them: quotes, backslashes, comments and line ends. Nothing is
// expanded or run; launch_script.hpp does the former.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

// Bytes [begin, end) of a file as it is on the disk.
struct TextPlace {
  std::string file;
  std::size_t begin = 0, end = 0;
  int line = 1, column = 1;  // of `begin`, in characters
  bool operator==(const TextPlace&) const = default;
};

// What cannot be known: a variable of the environment ("TP_SIZE"), an argument of the script ("1"), or a variable that takes the
// output of a command.
struct UnknownName {
  std::string name;
  int line = 0;
  std::string file = {}, why = {};
  std::vector<std::string> either = {};  // the texts that it may be, where a condition chooses one of them
  bool operator==(const UnknownName&) const = default;
};

// A run of characters of a word with one origin.
struct WordPiece {
  std::string text;                     // of an unknown piece: "${NAME}"
  std::optional<TextPlace> place = {};  // where exactly this text stands; none: computed, escaped or unknown
  std::optional<UnknownName> unknown = {};
};

struct ShellWord {
  std::string text;
  int line = 1, column = 1;            // where it starts
  bool expands = false;                // contains what is not known, so the value is unknown
  bool after_array = false;            // a bash array begins or ends before it, so it belongs to no earlier option
  std::vector<WordPiece> pieces = {};  // in order, together `text`; of a plain split one, where all of it is written so
  bool stands_alone = false;           // all of it is an expansion without quotes, so it may be any number of words

  // Where the characters from `from` on stand, if one literal holds all of them. An editor replaces these bytes.
  std::optional<TextPlace> place(std::size_t from = 0) const;
  // The word without its first `count` characters: the value of "--name=value".
  ShellWord without_first(std::size_t count) const;
};

// Bash arrays do not count as words: `NAME=(`, `NAME+=(` and the closing `)` are dropped. Throws InputError with a place for an
// unclosed quote, for bytes that are not UTF-8 text, and for more than 1 MiB.
std::vector<ShellWord> shell_words(std::string_view text, const std::string& name);

}  // namespace panpipe::jobs
