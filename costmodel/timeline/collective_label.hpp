// How spans name collectives inside passes, predicted and measured alike: "all_reduce" of a tensor group, "context send_receive".
#pragma once

#include <string>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

std::string_view collective_label(CollectiveKind kind);
std::string collective_label(CollectiveKind kind, Among among);

}  // namespace panpipe
