// The declared keys of a cluster, in a scenario or in its own file.
#pragma once

#include "base/input/key.hpp"

namespace panpipe {

Key cluster_key();

}  // namespace panpipe
