// Every key that the readers of a scenario know, from the readers themselves: they read scenarios of all forms while a record is
// kept.
#pragma once

#include <map>
#include <string>

#include "base/input/key_record.hpp"

namespace panpipe {

// By path, "optimizer.groups[].match". The root is "". Files that a scenario names have keys of their own, except the cluster's,
// whose keys a scenario may override: they stand under "cluster". Needs the shipped data.
std::map<std::string, KeyFact> scenario_keys();

}  // namespace panpipe
