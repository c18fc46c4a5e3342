// Another trainer's job as a scenario: every value with the argument or key that it came from, the assumptions, and the arguments
// not understood. Text is only parsed; nothing is run, expanded or sourced.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text/characters.hpp"
#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {

struct ImportedValue {
  std::string key;     // dotted path in the scenario: "parallel.tensor"
  std::string value;   // YAML flow text; words from the job are quoted as by scalar_text
  std::string origin;  // "--tensor-model-parallel-size", "zero_optimization.stage"
};

struct ImportedJob {
  std::string trainer;  // "Megatron-LM"
  std::string source;   // file, as named in messages
  std::vector<ImportedValue> values;
  std::vector<std::string> assumptions;     // a sentence for each value that the job leaves open and the scenario states
  std::vector<std::string> not_modelled;    // understood arguments that predictions ignore
  std::vector<std::string> not_understood;  // unknown arguments
  std::vector<std::string> without_effect;  // arguments that do not affect a step: paths, logging, learning rates
  std::vector<UnknownName> unknown = {};    // what the job leaves open and the scenario needs: then it is no scenario yet
  std::vector<ShellWord> launch = {};       // of a script: the command that was read

  void set(std::string key, std::string value, std::string origin) {
    values.push_back({std::move(key), std::move(value), std::move(origin)});
  }
  void set(std::string key, int value, std::string origin) { set(std::move(key), std::to_string(value), std::move(origin)); }
};

// A word of a job for messages: one line of at most 60 characters.
std::string one_line(std::string text);

// True if the name is among `names`; a trailing `*` there matches any rest.
bool names_one_of(const std::string& name, const std::vector<std::string>& names);

// Throws InputError that names all that is not known, with lines and the options that state it.
[[noreturn]] void refuse_unknown(const ImportedJob& job);

// The scenario file, with origins as comments and the lists in its heading.
std::string scenario_text(const ImportedJob& job);

}  // namespace panpipe::jobs
