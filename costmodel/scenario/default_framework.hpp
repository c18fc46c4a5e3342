// The framework preset for a scenario that names none.
#pragma once

#include <string>

#include "costmodel/workload/workload.hpp"

namespace panpipe {

struct DefaultFramework {
  std::string name;    // a shipped preset
  std::string origin;  // "default for llama", as `panpipe check` prints it
};

DefaultFramework default_framework(const WorkloadRequest& workload);

}  // namespace panpipe
