// The sizes of a device, from its allocator and CUDA's runtime, or from the host.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace panpipe::exec {

// Bytes that programs can use of the device in all; 0 if unknown.
std::int64_t device_memory_size(c10::Device device);

// {"memory", "free", "multiprocessors", "compute_capability", "l2_cache"} of a GPU, {"memory"} of a CPU; without what is unknown.
nlohmann::ordered_json device_facts(c10::Device device);

}  // namespace panpipe::exec
