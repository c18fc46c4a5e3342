// One point of the space that `--method auto` searches: degrees, microbatch, recompute, ZeRO, schedule, numbering of the devices.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::planner {

// The numbering of positions over the devices. Tensor-parallel ranks are always neighbours; the order decides whether the next
// replica of a rank or the next rank of a replica follows.
enum class AxisOrder : std::uint8_t { DataNext, PipelineNext };

struct Configuration : Degrees {
  std::int16_t family = 0;  // into forms()
  Recompute recompute = Recompute::None;
  AxisOrder order = AxisOrder::DataNext;

  auto operator<=>(const Configuration&) const = default;
  int stages() const { return pipeline * virtual_stages; }
  // Number of the plan's position (rank, replica, tensor index) in the order of the devices.
  std::int64_t place(int rank, int replica, int tensor_index) const {
    const std::int64_t row =
        order == AxisOrder::DataNext ? std::int64_t{rank} * replicas() + replica : std::int64_t{replica} * pipeline + rank;
    return row * tensor + tensor_index;
  }
};

// `schedule`: its name, if the scenario gives it. `recomputed`: the blocks of each stage that recompute; empty: as the mode alone
// has it. `scope`: the operators of selective recompute.
std::string summary_of(const Configuration& configuration, std::string_view schedule = "", const HostedState& hosted = {},
                       const std::vector<int>& recomputed = {}, const RecomputeScope& scope = {});

}  // namespace panpipe::planner
