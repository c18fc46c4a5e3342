// The arithmetic of fp32 products and convolutions on a GPU.
#pragma once

#include "base/precision.hpp"

namespace panpipe::exec {

// Tf32 enables TensorFloat-32 in cuBLAS and cuDNN. Any other precision uses fp32 in both; cuDNN's convolutions would use TF32 by
// LibTorch's default. The setting is per process, so ranks that are its threads share it.
void set_float32_products(Precision precision);

}  // namespace panpipe::exec
