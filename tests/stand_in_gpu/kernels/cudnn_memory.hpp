// cuDNN's operators without arithmetic: the memory of their results, as LibTorch allocates it. cuDNN's workspaces are left out.
#pragma once

#include <torch/library.h>

namespace panpipe::stand_in {

void install_cudnn_memory(torch::Library& library);

}  // namespace panpipe::stand_in
