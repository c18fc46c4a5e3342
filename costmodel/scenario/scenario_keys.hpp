// The keys of a scenario, as its readers declare them (CONTRIBUTING.md, "add a scenario key").
#pragma once

#include "base/input/key.hpp"

namespace panpipe {

const Key& scenario_keys();

}  // namespace panpipe
