// Internal to this folder.
#pragma once

#include "costmodel/profile/framework.hpp"

namespace panpipe::jobs {

// The preset that counts launches of routing, dispatch and combination with --moe-permute-fusion.
inline Framework with_fused_permutation() { return load_framework("nemo-performance", ""); }

}  // namespace panpipe::jobs
