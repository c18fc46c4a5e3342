// One point of the space that `--method auto` searches: degrees, microbatch, recompute, ZeRO, schedule, numbering of the devices.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe::planner {

// The numbering of positions over the devices. Tensor-parallel ranks are always neighbours; the order decides whether the next
// replica of a rank or the next rank of a replica follows.
enum class AxisOrder : std::uint8_t { DataNext, PipelineNext };

// The choices that shape a device's graph. Configurations that agree in them share a workload and its costs.
struct GraphShape {
  std::int32_t tensor = 1, micro = 1;
  std::int32_t context = 1, expert = 1, expert_tensor = 0;  // expert_tensor: 1, or 0 = as tensor
  bool sequence_parallel = false;

  auto operator<=>(const GraphShape&) const = default;
};

struct Configuration {
  std::int32_t tensor = 1, pipeline = 1, data = 1;
  std::int32_t micro = 1, microbatches = 1;
  std::int16_t chunks = 1;  // stages per rank
  std::int16_t family = 0;  // into forms()
  std::int16_t held = 0;    // activations that a rank may hold, for searched families; else 0
  std::int8_t zero = 0;
  std::int32_t context = 1, expert = 1, expert_tensor = 0;
  std::int32_t shard = 0;  // as stated: it is not searched
  Recompute recompute = Recompute::None;
  bool sequence_parallel = false;
  AxisOrder order = AxisOrder::DataNext;

  auto operator<=>(const Configuration&) const = default;
  int stages() const { return pipeline * chunks; }
  Degrees degrees() const {
    return {pipeline, tensor, data, chunks, zero, sequence_parallel, micro, microbatches, shard, context, expert, expert_tensor};
  }
  GraphShape shape() const { return {tensor, micro, context, expert, expert_tensor, sequence_parallel}; }
  int replicas() const { return data * context; }
  int devices() const { return tensor * pipeline * replicas(); }
  // Number of the plan's position (rank, replica, tensor index) in the order of the devices.
  std::int64_t place(int rank, int replica, int tensor_index) const {
    const std::int64_t row =
        order == AxisOrder::DataNext ? std::int64_t{rank} * replicas() + replica : std::int64_t{replica} * pipeline + rank;
    return row * tensor + tensor_index;
  }
};

std::string summary_of(const Configuration& configuration,
                       std::string_view schedule = "");  // the schedule's name, if the scenario gives it

}  // namespace panpipe::planner
