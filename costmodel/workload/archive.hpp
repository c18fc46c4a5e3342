// Exported models: the archive that torch.export.save writes, as an operator graph. What is accepted: docs/models/exported.md.
#pragma once

#include <string>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Reads shapes and operators, and where the values of parameters and buffers lie in the file; the values themselves are not
// read. The program is for one microbatch: its first output is the scalar loss, and the first dimension of every input is
// `microbatch` samples. Throws InputError: what is wrong with the file, or up to twenty operators that cannot be used, each with
// its module path and what to do.
OperatorGraph load_exported(const std::string& path, int microbatch);

// Operators that write into one of their tensors: the position of that argument, -1 for none. Running statistics of
// normalizations are not counted here.
int written_argument(const std::string& target);

}  // namespace panpipe
