// Attention whose inside is computed again in the backward (`recompute: selective`): of the forward only query, key, value and
// mask stay. What that saves are the scores, where the kernel keeps them (fused kernels keep a number per row), and masks of
// dropout.
#pragma once

#include <ATen/core/stack.h>

#include <functional>

namespace panpipe::exec {

// Runs `attention`, an aten::scaled_dot_product_attention on a stack of its arguments, and leaves its result on the stack. The
// call is made again in the backward: it must draw the same random numbers, and outlive the graph.
void recomputed_attention(std::function<void(torch::jit::Stack&)> attention, torch::jit::Stack& stack);

}  // namespace panpipe::exec
