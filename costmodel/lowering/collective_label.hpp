// Names of collectives inside passes, for predicted and measured spans: "all_reduce" of a tensor group, "context send_receive".
#pragma once

#include <string>

#include "base/index.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

constexpr std::string_view collective_label(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"collective",     "all_reduce", "all_gather",
                                         "reduce_scatter", "all_to_all", "send_receive"};
  return kNames[at(kind)];
}

inline std::string collective_label(CollectiveKind kind, Among among) {
  std::string label(collective_label(kind));
  return among == Among::Tensor ? label : std::string(name_of(among)).append(" ").append(label);
}

}  // namespace panpipe
