// The attention kernels among which a training script chooses.
#pragma once

#include <cstdint>

#include "base/input/reader.hpp"

namespace panpipe {

enum class AttentionKernel : std::uint8_t {
  Unfused,       // two batched products and a kernel per operator on the scores
  FusedSoftmax,  // two batched products, and one kernel for scale, mask and softmax
  Flash,         // one fused kernel, not named; runs at the rate of the device's calibration
  Flash1,
  Flash2,
  Flash3,
  FlashTriton,
  Cudnn
};

inline const Choices<AttentionKernel>& attention_kernels() {
  static const Choices<AttentionKernel> all = {{"unfused", AttentionKernel::Unfused},
                                               {"fused-softmax", AttentionKernel::FusedSoftmax},
                                               {"flash", AttentionKernel::Flash},
                                               {"flash-1", AttentionKernel::Flash1},
                                               {"flash-2", AttentionKernel::Flash2},
                                               {"flash-3", AttentionKernel::Flash3},
                                               {"flash-triton", AttentionKernel::FlashTriton},
                                               {"cudnn", AttentionKernel::Cudnn}};
  return all;
}

// True if scores never leave the multiprocessor.
constexpr bool is_fused(AttentionKernel kernel) {
  return kernel != AttentionKernel::Unfused && kernel != AttentionKernel::FusedSoftmax;
}

}  // namespace panpipe
