#include "exec/engine/transport/message_header.hpp"

#include <ATen/ops/empty.h>

#include <limits>

#include "base/error.hpp"

namespace panpipe::exec {

at::Tensor room_for(const MessageHeader& header) {
  bool sound = header.dtype >= 0 && header.dtype < static_cast<std::int32_t>(at::ScalarType::Undefined) &&
               header.dimensions >= 0 && header.dimensions <= kMostDimensions;
  const auto type = sound ? static_cast<at::ScalarType>(header.dtype) : at::kByte;
  auto bytes = static_cast<std::int64_t>(c10::elementSize(type));
  for (std::int32_t i = 0; sound && i < header.dimensions; ++i) {
    const std::int64_t size = header.shape[i];
    sound = size >= 0 && (size == 0 || bytes <= std::numeric_limits<std::int64_t>::max() / size);
    if (sound) bytes *= size;
  }
  if (!sound || header.bytes != bytes || (header.inlined != 0) != (bytes <= kInlineBytes))
    throw MachineError("a message came whose header is not one of this version of panpipe");
  return at::empty(at::IntArrayRef(header.shape, static_cast<std::size_t>(header.dimensions)), type);
}

}  // namespace panpipe::exec
