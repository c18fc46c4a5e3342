// Names of collectives inside passes, for predicted and measured spans: "all_reduce" of a tensor group, "context send_receive".
#pragma once

#include <string>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

constexpr std::string_view collective_label(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all_reduce";
    case CollectiveKind::AllGather:
      return "all_gather";
    case CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::AllToAll:
      return "all_to_all";
    case CollectiveKind::SendReceive:
      return "send_receive";
    case CollectiveKind::None:
      break;
  }
  return "collective";
}

inline std::string collective_label(CollectiveKind kind, Among among) {
  std::string label(collective_label(kind));
  return among == Among::Tensor ? label : std::string(name_of(among)).append(" ").append(label);
}

}  // namespace panpipe
