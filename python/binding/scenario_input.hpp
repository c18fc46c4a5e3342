// A scenario as Python gives it: the path of a file, or a dict with the keys that such a file has.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::python {

namespace nb = nanobind;

class ScenarioInput {
 public:
  explicit ScenarioInput(nb::object given);  // str or dict; the holder of the GIL

  const std::string& name() const { return name_; }  // the path, or "scenario"
  // Two inputs of one key are the same scenario as long as the files that it names are.
  const std::string& key() const { return key_; }
  // From any thread; takes the GIL where it reads a dict.
  Scenario load(const std::vector<std::string>& overrides, const std::string& plan_file = "") const;
  std::string file() const { return is_dict_ ? std::string() : name_; }  // empty: a dict

 private:
  nb::object given_;
  bool is_dict_ = false;
  std::string name_, key_;
};

// A dict as the tree that a YAML file would give. TypeError, with the path, for what YAML has no word for.
NodePtr to_document(nb::handle dict, const std::string& name);

// A tree as dicts, lists, numbers, truths and texts.
nb::object to_python(const Node& node);

}  // namespace panpipe::python
