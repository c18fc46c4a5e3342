// The kernels of LibTorch's operators on CUDA, by those on the CPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>

namespace panpipe::stand_in {

// Enqueues the CPU's kernel on the current stream of the arguments' device and returns results whose bytes come later, as CUDA's
// kernels do. Operators whose results' shapes depend on values, or that return numbers, wait for the stream instead.
void run_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// aten::copy_ between devices and the host: waits where pageable memory of the host is at one end, as CUDA's does.
at::Tensor& copy_tensor(at::Tensor& to, const at::Tensor& from, bool non_blocking);

// Work on a stream of LibTorch's.
void enqueue_on(const c10::cuda::CUDAStream& stream, std::function<void()> work);

}  // namespace panpipe::stand_in
