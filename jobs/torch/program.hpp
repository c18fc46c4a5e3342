// An operator graph as Python: one function per kind of unit in torch's own calls, and the list of units.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe::jobs {

// `text` defines CONSTANTS, one function per kind of unit with its `parameters`, loss_of, INPUTS, TARGET, TIED and UNITS;
// comments in the text explain them. Units that differ only in module paths share a function.
struct TorchProgram {
  std::string text;
  bool own_operators = false;  // calls operators that ATen lacks; the script must define them
  bool dropout = false;
};

// The graph must be whole (tensor_degree 1). Throws InputError if a script cannot express it: values from an archive, several
// label tensors, labels that are read before the last unit.
TorchProgram torch_program(const OperatorGraph& graph);

}  // namespace panpipe::jobs
