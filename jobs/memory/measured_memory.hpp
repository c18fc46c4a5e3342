// What PyTorch's allocator measured of a device: a memory snapshot (a pickle of torch.cuda.memory._dump_snapshot), a printed
// torch.cuda.memory_summary(), or the message of an out-of-memory error. Bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.hpp"

namespace panpipe::jobs {

// What a block is for, as far as its frames show it. Backward: made by autograd's threads, which have no frames of Python.
enum class MemoryRole : std::uint8_t { Parameters, Gradients, Optimizer, Activations, Temporary, Backward, Unknown };
constexpr std::size_t kMemoryRoles = at(MemoryRole::Unknown) + 1;
std::string_view name_of(MemoryRole role);

// Blocks that one place of the program allocated.
struct MemoryHolder {
  MemoryRole role{};
  std::string place;  // "model.py:42 forward"
  std::int64_t bytes = 0, blocks = 0;
};

struct LargeSegment {
  std::int64_t bytes = 0, allocated = 0, largest_gap = 0, blocks = 0;  // blocks: allocated ones
  int stream = 0;                                                      // in the order in which streams appear
};

struct MeasuredMemory {
  std::string source;  // "snapshot", "summary", "out-of-memory message"
  int device = 0;
  std::optional<std::int64_t> allocated, requested, reserved;                 // when it was taken
  std::optional<std::int64_t> inactive_split;                                 // unused parts of segments that are in use
  std::optional<std::int64_t> peak_allocated, peak_requested, peak_reserved;  // of a snapshot: while its history lasts
  long long events = 0, segments = 0, retries = 0, out_of_memory = 0;
  bool at_peak = false;  // `roles` and `holders` are of the highest point of the history, else of when it was taken
  std::array<std::int64_t, kMemoryRoles> roles{};  // requested bytes
  std::vector<MemoryHolder> holders;               // the largest first
  std::vector<LargeSegment> largest;               // segments
  std::string settings;                            // PYTORCH_CUDA_ALLOC_CONF

  std::int64_t of(MemoryRole role) const { return roles[at(role)]; }
  bool has_roles() const { return source == "snapshot"; }
};

// `device`: the GPU's number in the file; none: the one with most memory. Throws InputError for what is neither of the three, and
// for a device that the file does not have.
MeasuredMemory read_measured_memory(const std::string& path, std::optional<int> device = {});
// Of the bytes of such a file.
MeasuredMemory parse_measured_memory(std::string bytes, const std::string& name, std::optional<int> device = {});

// memory_summary.cpp: of text.
MeasuredMemory parse_memory_text(const std::string& text, const std::string& name, std::optional<int> device);

}  // namespace panpipe::jobs
