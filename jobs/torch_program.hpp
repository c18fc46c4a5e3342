// An operator graph as Python: a function for each kind of unit in torch's own words, and the list of the units.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe::jobs {

// `text` defines CONSTANTS, a function for each kind of unit with its `parameters`, loss_of, INPUTS, TARGET, TIED and UNITS;
// what they stand for is said beside them in the text. Units that differ in their modules' path alone share a function.
struct TorchProgram {
  std::string text;
  bool own_operators = false;  // calls the operators that ATen does not have: the script must define them
  bool dropout = false;
};

// The graph must be whole (tensor_degree 1). Throws InputError where a script cannot hold it: values from an archive, several
// tensors of labels, labels that are read before the last unit.
TorchProgram torch_program(const OperatorGraph& graph);

}  // namespace panpipe::jobs
