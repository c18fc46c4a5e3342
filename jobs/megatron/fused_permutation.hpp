// Internal to this folder.
#pragma once

namespace panpipe::jobs {

// Launches of routing, dispatch and combination with --moe-permute-fusion: expert_forward_operators and
// expert_backward_operators as the preset nemo-performance counts them.
constexpr int kFusedForward = 45, kFusedBackward = 28;

}  // namespace panpipe::jobs
