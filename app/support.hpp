// The document panpipe-support/1: the parts of a scenario that were compared with measured runs.
#pragma once

#include <string>

#include "costmodel/prediction/support.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::app {

std::string to_json(const Support& support, const Metrics& figures);

}  // namespace panpipe::app
