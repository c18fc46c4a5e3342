// The differences between a model's configuration and the model as built here.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/workload.hpp"

namespace panpipe {

// One sentence each, without a period; empty unless the workload is `{config: ...}`.
std::vector<std::string> assumptions_of(const WorkloadRequest& request);

}  // namespace panpipe
