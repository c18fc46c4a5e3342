// Exported models: reads the archive of torch.export.save as an operator graph. Accepted programs: docs/models/exported.md.
#pragma once

#include <string>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Reads shapes, operators, and the file positions of parameters and buffers, but not their values. The program is for one
// microbatch: its first output is the scalar loss, and the first dimension of every input is `microbatch` samples. Throws
// InputError for faults of the file, or with up to twenty unsupported operators, each with its module path and remedy.
OperatorGraph load_exported(const std::string& path, int microbatch);

}  // namespace panpipe
