// Operators that the model builders add to ATen's (namespace panpipe_nn): attention with a window, a cap, sinks or linear biases,
// and the parts of a mixture of experts. They are composed of ATen's operators, so autograd knows their derivatives.
#pragma once

namespace panpipe::exec {

// Registers them with PyTorch's dispatcher, once per process. Thread-safe.
void register_own_operators();

}  // namespace panpipe::exec
