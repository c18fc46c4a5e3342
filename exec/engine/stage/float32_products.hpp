// What products and convolutions of fp32 tensors are computed in on a GPU.
#pragma once

#include "base/precision.hpp"

namespace panpipe::exec {

// Tf32: TensorFloat-32, in cuBLAS and in cuDNN. Any other precision: fp32 in both; cuDNN's convolutions would take TF32 by
// themselves (LibTorch's default). The setting is the process's: ranks that are threads of it have the same precision.
void set_float32_products(Precision precision);

}  // namespace panpipe::exec
