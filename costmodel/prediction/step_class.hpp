// Classes of steps by what predictions of them miss. The judge of predictions and the prior of their uncertainty keep them apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

enum class StepClass : std::uint8_t {
  Dense,  // several GPUs that NVLink joins, or one per node
  OneGpu,
  Pcie,      // several GPUs of a node without NVLink between all neighbours
  EightBit,  // products in 8 bits
  Experts,   // by a trainer whose preset counts what a layer launches around its experts
  UncountedExperts,
  Adapters,  // LoRA, frozen parameters
  Offload,   // state in the host's memory
  Profiled,  // units were measured on the machine
};
constexpr std::size_t kStepClasses = 9;
std::string_view name_of(StepClass of);  // "dense, NVLink", "one GPU", ...

// The first of these that holds: measured units, offload, PCIe, experts, adapters, one GPU, 8 bits; else dense.
StepClass class_of(const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
