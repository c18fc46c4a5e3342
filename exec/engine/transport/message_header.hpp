// The header of a message over Gloo.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace panpipe::exec {

// A copy of this many bytes costs less than the second message it saves; below glibc's threshold for mapped memory.
constexpr std::int64_t kInlineBytes = 64 * 1024;
constexpr int kMostDimensions = 25;

struct MessageHeader {
  std::uint32_t channel, tag;
  std::int32_t dtype, dimensions;
  std::int64_t bytes;
  std::int64_t inlined;  // 1: the values follow in the same message
  std::int64_t shape[kMostDimensions];
};
constexpr std::int64_t kHeaderBytes = 256;
static_assert(sizeof(MessageHeader) <= kHeaderBytes);

// Room for what it announces. Throws MachineError for a header that no rank of this version sends: its numbers would otherwise be
// taken for sizes of memory.
at::Tensor room_for(const MessageHeader& header);

}  // namespace panpipe::exec
