// What a script knows at one point: variables, functions, arguments.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jobs/shell/script_tree.hpp"
#include "jobs/shell/shared_names.hpp"

namespace panpipe::jobs {

struct ScriptVariable {
  bool is_array = false, is_map = false, exported = false;
  ShellText text = {};                          // of a variable that is neither
  std::map<long long, ShellText> items = {};    // of an array
  std::map<std::string, ShellText> named = {};  // of a map (declare -A)

  bool same_as(const ScriptVariable& other) const;
  std::vector<ShellText> all() const;  // ${X[@]}
};
using VariablePointer = std::shared_ptr<const ScriptVariable>;
using Variables = SharedNames<VariablePointer>;

struct ScriptState {
  enum class Flow { Runs, Breaks, Continues, Returns, Exits };

  Variables variables = {};
  // For each function that runs: what its locals hide; null: nothing.
  std::vector<std::map<std::string, VariablePointer>> hidden = {};
  SharedNames<CommandPointer> functions = {};
  std::map<int, ShellText> arguments = {};  // from 1
  int shifted = 0;                          // arguments that `shift` has taken, for names
  bool all_arguments = false;               // `arguments` are all of them
  std::string folder = {};                  // the working folder; empty: not known
  Flow flow = Flow::Runs;
  int levels = 0;  // of `break 2`, left

  const ScriptVariable* find(const std::string& name) const { return variables.find(name).get(); }
  int argument_count() const;
};

// What a command's end states. `yes`: it succeeded.
struct Outcome {
  enum class Truth { No, Yes, Unknown };
  Truth truth = Truth::Yes;
  std::vector<int> why = {};         // unknowns that an unknown truth depends on
  std::optional<bool> assumed = {};  // what an unknown truth is taken for
  int note = -1;                     // the assumption's sentence
  bool external = false;             // of a program, whose success is likely
  std::optional<bool> likely = {};   // what it is where arguments and the environment state nothing
  bool presumed = false;             // a truth for which something open counts as not set

  static Outcome of(bool yes) { return {yes ? Truth::Yes : Truth::No}; }
  static Outcome of_program() { return {.external = true}; }
  static Outcome unknown(std::vector<int> why) { return {Truth::Unknown, std::move(why)}; }
  Outcome negated() const;
};
Outcome both(const Outcome& a, const Outcome& b);    // a && b
Outcome either(const Outcome& a, const Outcome& b);  // a || b

}  // namespace panpipe::jobs
