// All keys of a scenario, collected from the readers themselves: they read scenarios of all forms while a KeyRecord records.
#pragma once

#include <map>
#include <string>

#include "base/input/key_record.hpp"

namespace panpipe {

// Facts by path, such as "optimizer.groups[].match"; the root is "". Referenced files have their own keys, except the cluster's:
// a scenario may override these, so they appear under "cluster". Needs the shipped data.
std::map<std::string, KeyFact> scenario_keys();

}  // namespace panpipe
