// A scenario given from Python: the path of a file, or a dict with the keys of such a file.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::python {

namespace nb = nanobind;

class ScenarioInput {
 public:
  explicit ScenarioInput(nb::object given);  // str or dict; call with the GIL held

  const std::string& name() const { return name_; }  // the path, or "scenario"
  // Inputs with equal keys are the same scenario as long as the files that it names are unchanged.
  const std::string& key() const { return key_; }
  // Thread-safe; take the GIL to read a dict.
  NodePtr document() const;
  Scenario load(const std::vector<std::string>& overrides, const std::string& plan_file = "") const;

 private:
  nb::object given_;
  bool is_dict_ = false;
  std::string name_, key_;
};

// Converts a dict to the tree of the equivalent YAML file. Its values are dicts, lists, texts, numbers, truths and None alone.
NodePtr to_document(nb::handle dict, const std::string& name);

// A tree as dicts, lists, numbers, truths and texts.
nb::object to_python(const Node& node);

}  // namespace panpipe::python
