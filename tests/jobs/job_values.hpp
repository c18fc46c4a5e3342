// What an importer's test asks of an imported job.
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {

inline std::string value(const ImportedJob& imported, const std::string& key) {
  for (const ImportedValue& known : imported.values)
    if (known.key == key) return known.value;
  return "absent";
}

inline std::string fault_of(const std::function<void()>& import) {
  try {
    import();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no fault";
}

}  // namespace panpipe::jobs
