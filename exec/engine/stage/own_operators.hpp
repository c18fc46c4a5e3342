// Operators that the model builders add to ATen's (namespace panpipe_nn): attention with a window, a cap, sinks or linear biases,
// and the parts of a mixture of experts. Composites of ATen's operators, so autograd knows their derivatives.
#pragma once

namespace panpipe::exec {

// Makes PyTorch's dispatcher know them. Once a process; from any thread.
void register_own_operators();

}  // namespace panpipe::exec
