// A training job of another trainer as a scenario of ours: every value with the argument or key that it came from, what was
// assumed, and what was not understood. Text is parsed; nothing is run, expanded or sourced.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text/characters.hpp"

namespace panpipe::jobs {

struct ImportedValue {
  std::string key;     // dotted path in the scenario: "parallel.tensor"
  std::string value;   // YAML flow text; words of the job stand in it as scalar_text has them
  std::string origin;  // "--tensor-model-parallel-size", "zero_optimization.stage"
};

struct ImportedJob {
  std::string trainer;  // "Megatron-LM"
  std::string source;   // file, as messages name it
  std::vector<ImportedValue> values;
  std::vector<std::string> assumptions;     // a sentence each: what the job leaves open and the scenario states
  std::vector<std::string> not_modelled;    // arguments that are understood and that predictions do not know
  std::vector<std::string> not_understood;  // arguments that nobody here knows
  std::vector<std::string> without_effect;  // arguments that do not move a step: paths, logging, learning rates

  void set(std::string key, std::string value, std::string origin) {
    values.push_back({std::move(key), std::move(value), std::move(origin)});
  }
  void set(std::string key, int value, std::string origin) { set(std::move(key), std::to_string(value), std::move(origin)); }
};

// A word of a job as messages show it: one line of at most 60 characters.
std::string one_line(std::string text);

// Whether a name is one of `names`; a trailing `*` there stands for any rest.
bool names_one_of(const std::string& name, const std::vector<std::string>& names);

// The scenario file, with origins as comments and the lists at its head.
std::string scenario_text(const ImportedJob& job);

}  // namespace panpipe::jobs
