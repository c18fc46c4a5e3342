// A parsed shell script.
#pragma once

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "jobs/shell/shell_text.hpp"

namespace panpipe::jobs {

struct ScriptCommand;
struct ScriptWord;
using CommandPointer = std::shared_ptr<const ScriptCommand>;
using CommandList = std::vector<CommandPointer>;
using WordPointer = std::shared_ptr<ScriptWord>;

struct ScriptPart {
  enum class Kind { Literal, Parameter, Arithmetic, Command, Process };
  Kind kind = Kind::Literal;
  bool quoted = false;
  int line = 0;
  ShellText literal = {};
  std::string name = {};                  // of a parameter: X, 1, @, #
  char prefix = 0;                        // '#': length, '!': indirect
  std::string operation = {};             // ":-", "%%", "/", "^^"
  WordPointer index = {};                 // ${X[index]}
  WordPointer operand = {}, second = {};  // ${X:-operand}, ${X/operand/second}, ${X:operand:second}; the expression of $((...))
  CommandList body = {};                  // of $(...)
  std::string source = {};                // of $(...), for messages
};

struct ScriptWord {
  std::vector<ScriptPart> parts;
  int line = 0;
};

struct ScriptElement {  // of an array: [index]=value, or value
  WordPointer index = {};
  ScriptWord value = {};
};

struct ScriptAssignment {
  std::string name;
  WordPointer index = {};
  bool append = false, array = false;
  ScriptWord value = {};
  std::vector<ScriptElement> elements = {};
  int line = 0;
};

struct ScriptRedirect {
  std::string operation;  // "<", ">>", "<<", "<<<", "&>"
  int descriptor = -1;
  WordPointer target;  // of "<<": the text
};

struct ScriptCase {
  std::vector<ScriptWord> patterns;
  CommandList body;
  bool falls_through = false;  // ";&": the next body runs too
  bool tries_on = false;       // ";;&": the patterns behind it are tried too
};

struct ScriptCommand {
  enum class Kind { Simple, Pipeline, AndOr, Subshell, Group, If, For, Count, While, Case, Function, Arithmetic, Test };
  Kind kind = Kind::Simple;
  int file = -1, line = 0;
  std::vector<ScriptAssignment> assignments = {};  // before a command; behind `export` and its like: its arguments
  std::vector<ScriptWord> words = {};              // also of `for` and `[[`
  std::vector<ScriptRedirect> redirects = {};
  CommandList children = {};   // of a pipeline or a list of && and ||
  std::vector<bool> ors = {};  // before children[i + 1]: `||`
  bool negated = false, background = false;
  std::vector<CommandList> conditions = {};  // if, elif; while
  std::vector<CommandList> bodies = {};      // of each condition, and that of `else`; of loops, groups and functions one
  std::string name = {};                     // of a function or a loop's variable
  bool until = false, in_list = false;       // `until`; `for NAME in ...`
  std::vector<ScriptCase> cases = {};
};

// Where the text is no shell script.
struct ScriptFault : std::runtime_error {
  ScriptFault(const std::string& message, int line_of_it) : std::runtime_error(message), line(line_of_it) {}
  int line;
};

}  // namespace panpipe::jobs
