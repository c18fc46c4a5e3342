// What a model's configuration asks for and the model does otherwise.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/workload.hpp"

namespace panpipe {

// A sentence each, without a period; empty but for `workload: {config: ...}`.
std::vector<std::string> assumptions_of(const WorkloadRequest& request);

}  // namespace panpipe
