// Values of an imported job that tests of importers compare.
#pragma once

#include <string>

#include "jobs/job.hpp"
#include "tests/fault.hpp"

namespace panpipe::jobs {

inline std::string value(const ImportedJob& imported, const std::string& key) {
  for (const ImportedValue& known : imported.values)
    if (known.key == key) return known.value;
  return "absent";
}

using test::fault_of;

}  // namespace panpipe::jobs
