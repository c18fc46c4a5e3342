// Groups GPU kernels by name into groups that a cost model also predicts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace panpipe::jobs {

enum class KernelGroup : std::uint8_t {
  Products,
  Attention,
  Normalization,
  Elementwise,  // including the loss
  Optimizer,
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  SendReceive,
  Copies,
  Other
};
constexpr std::size_t kKernelGroups = static_cast<std::size_t>(KernelGroup::Other) + 1;

std::string_view name_of(KernelGroup group);  // "products", "all_reduce"
inline bool is_communication(KernelGroup group) { return group >= KernelGroup::AllReduce && group <= KernelGroup::SendReceive; }

// `category` as in Kineto ("kernel", "gpu_memcpy"); `collective`: the argument "Collective name", may be empty.
KernelGroup group_of_kernel(std::string_view category, std::string_view name, std::string_view collective);

}  // namespace panpipe::jobs
