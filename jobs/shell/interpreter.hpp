// Follows a script's commands with what is known, and collects the programs that it would start.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jobs/shell/launch_script.hpp"
#include "jobs/shell/script_files.hpp"
#include "jobs/shell/script_parser.hpp"
#include "jobs/shell/script_state.hpp"
#include "jobs/shell/shell_arithmetic.hpp"

namespace panpipe::jobs {

struct Unknown {
  // Merged: a value that differs by a condition that is not known.
  enum class Kind { Variable, Argument, Count, Output, Merged };
  Kind kind;
  UnknownName name;
};

class Interpreter {
 public:
  Interpreter(const LaunchOptions& options, const std::string& name);
  // Runs a file's text; the script's own is the first.
  void run_file(const std::string& text, const std::string& name);
  LaunchScript result();

 private:
  friend class ConditionReader;
  struct Field {
    ShellText text;
    bool quoted = false;
    bool alone = true;  // all of it is an expansion without quotes
  };
  struct Fields {
    std::vector<Field> all;
    bool open = false;
    Field& field();
    void close();
  };
  struct StartedProgram {
    std::vector<Field> words;
    int file, line;
    std::vector<int> depends, notes;
    bool unlikely;
  };
  struct Written {
    ShellText name, text;
  };
  class Level;

  // expansion (interpreter_expand.cpp, interpreter_parameters.cpp)
  std::vector<Field> expand(const std::vector<ScriptWord>& words);
  void expand_word(const ScriptWord& word, Fields& fields);
  void expand_part(const ScriptPart& part, Fields& fields);
  void put(Fields& fields, const ShellText& text, bool quoted);
  // `joint`: between the texts where they are one word in quotes.
  void put_list(Fields& fields, const std::vector<ShellText>& texts, bool quoted, const std::optional<std::string>& joint);
  std::optional<std::string> joint_of(const ScriptPart& part) const;
  ShellText single(const ScriptWord& word);  // without splitting: of an assignment
  ShellText single(const WordPointer& word) { return word ? single(*word) : ShellText(); }
  std::string pattern(const ScriptWord& word, std::vector<int>& unknowns);
  ShellText value_of(const ScriptPart& part);
  bool list_of(const ScriptPart& part, std::vector<ShellText>& texts);  // $@, ${X[@]}
  std::optional<ShellText> lookup(const ScriptPart& part);              // none: not set
  std::optional<ShellText> lookup_special(const std::string& name, int line);
  std::optional<ShellText> lookup_item(const ScriptVariable& variable, const ScriptPart& part);
  ShellText unset_value(const std::string& name, int line);
  ShellText operate(const ScriptPart& part, const std::optional<ShellText>& value);
  bool uses_operand(const ScriptPart& part, const std::optional<ShellText>& value) const;
  void put_operand(const ScriptWord& word, bool quoted, Fields& fields);
  void put_literal(const ScriptPart& part, Fields& fields);
  ShellText change(const ScriptPart& part, const ShellText& value);
  ShellText without_affix(const ScriptPart& part, const ShellText& value);
  ShellText replaced(const ScriptPart& part, const ShellText& value);
  ShellText sliced(const ScriptPart& part, const ShellText& value);
  ShellText substitute(const ScriptPart& part);
  ArithmeticResult arithmetic(const ShellText& expression, int line);
  ShellText text_of(const ArithmeticResult& result, int line);
  ArithmeticVariables arithmetic_variables(int line);

  // commands (interpreter_compound.cpp, interpreter_branches.cpp)
  Outcome run(const CommandList& commands);
  Outcome run(const ScriptCommand& command);
  Outcome run_kind(const ScriptCommand& command);
  Outcome run_pipeline(const ScriptCommand& command);
  Outcome run_and_or(const ScriptCommand& command);
  Outcome run_if(const ScriptCommand& command, std::size_t branch);
  Outcome run_case(const ScriptCommand& command);
  Outcome matches_arm(const ScriptCase& arm, const ShellText& subject);
  Outcome run_cases(const ScriptCommand& command, const ShellText& subject, std::size_t arm, const Outcome& before);
  Outcome run_for(const ScriptCommand& command);
  Outcome run_count(const ScriptCommand& command);
  Outcome run_while(const ScriptCommand& command);
  bool loop_goes_on();
  Outcome run_apart(const std::function<Outcome()>& commands);  // in a subshell
  Outcome run_either(const Outcome& condition, const std::function<Outcome()>& yes, const std::function<Outcome()>& no);
  void run_way(const std::function<Outcome()>& way, bool unlikely);
  Outcome run_presumed(const std::function<Outcome()>& taken, const std::function<Outcome()>& left);
  void merge(ScriptState taken, ScriptState other, const Outcome& condition, int line);
  void merge_variable(const std::string& name, const VariablePointer& a, const VariablePointer& b, const Outcome& condition,
                      int line);
  ShellText merged_text(const std::string& name, const ShellText& a, const ShellText& b, const Outcome& condition, int line);
  Outcome run_text(const ShellText& text, int line);
  Outcome run_lines(const ShellText& text, int line, const std::function<std::string(const ScriptFault&)>& remark);
  Outcome run_function(const CommandPointer& function, const std::vector<Field>& words);
  void copy_cost();

  // simple commands (interpreter_simple.cpp, interpreter_builtins.cpp)
  Outcome run_simple(const ScriptCommand& command);
  Outcome run_words(const ScriptCommand& command, std::vector<Field> words);
  bool run_builtin(const ScriptCommand& command, std::vector<Field>& words, Outcome& outcome);
  void assign(const ScriptAssignment& assignment);
  std::shared_ptr<ScriptVariable> changed_variable(const std::string& name) const;
  void set(const std::string& name, const ShellText& text);
  void set_item(const std::string& name, const std::string& index, const ShellText& text);
  void set_array(const ScriptAssignment& assignment, ScriptVariable& variable);
  void make_local(const std::string& name);
  void export_name(const std::string& name);
  ShellText named_after(const std::string& name, const ShellText& text);
  Outcome declare(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome echo(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome print_formatted(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome change_folder(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome source(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome run_script(const ScriptCommand& command, const std::vector<Field>& words, std::size_t at);
  void take_arguments(const std::vector<Field>& words);
  Outcome read_names(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome set_arguments(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome shift(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome leave(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome start(const ScriptCommand& command, std::vector<Field> words);
  std::optional<std::size_t> script_among(const std::vector<Field>& words) const;
  bool starts_itself(const std::vector<Field>& words) const;
  bool prints_known(const ScriptCommand& command, const std::vector<Field>& words);
  std::optional<std::string> answer_of(const std::string& program, const std::vector<std::string>& words);
  Outcome evaluate(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome evaluate_let(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome unset(const ScriptCommand& command, const std::vector<Field>& words);
  void redirect_output(const ScriptCommand& command, const ShellText& output);
  bool redirects_output(const ScriptCommand& command) const;
  void print(const ShellText& text);
  int stated_number(const std::string& name) const;
  void check_defines() const;
  void state_machine(const std::string& text);  // #SBATCH lines (interpreter_machine.cpp)
  void state_machine_line(const std::string& text, std::size_t begin, std::size_t end);

  // cat and sed (interpreter_filters.cpp)
  std::optional<ShellText> text_of_file(const ShellText& name);
  std::optional<ShellText> input_of(const ScriptCommand& command);
  bool concatenate(const ScriptCommand& command, const std::vector<Field>& words);
  bool edit_stream(const ScriptCommand& command, const std::vector<Field>& words);
  static ShellText unflattened(const std::string& flat);

  // conditions (interpreter_conditions.cpp)
  Outcome test(const ScriptCommand& command, const std::vector<Field>& words);
  Outcome test_words(const std::vector<ScriptWord>& words, int line);

  int unknown(Unknown::Kind kind, const std::string& name, int line, const std::string& why = "");
  int add_unknown(Unknown unknown);
  int note(const std::string& sentence);
  std::string spelled(const ShellText& text) const;
  ShellWord shell_word(const Field& field, int line) const;
  std::vector<UnknownName> names_of(const std::vector<int>& unknowns) const;

  const LaunchOptions& options_;
  std::string name_;
  ScriptFiles files_;
  ScriptBudget budget_;
  ParseContext context_;
  ScriptState state_;
  std::vector<Unknown> unknowns_;
  std::vector<std::string> notes_;
  std::vector<int> used_notes_;  // of the command that is being expanded
  std::vector<StartedProgram> started_;
  std::map<std::string, Written> written_;     // by the flat text of the name
  std::vector<std::string> assigned_options_;  // names of variables with options, in order
  std::vector<std::string> remarks_;
  std::vector<int> depends_;          // unknown conditions around
  const ShellText* input_ = nullptr;  // of a command in a pipeline
  ShellText* output_ = nullptr;       // of a substitution or a redirected command; null: the terminal
  std::string folder_;                // canonical; files in and below it may be read
  std::string script_path_;
  int unlikely_ = 0;  // ways around that are not taken where arguments and the environment state nothing
  int level_ = 0;     // commands, functions, files and texts within each other
  int line_ = 0, file_ = 0;
};

// Counts what stands within each other: the stack bounds it.
class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter);
  ~Level() { --interpreter_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace panpipe::jobs
