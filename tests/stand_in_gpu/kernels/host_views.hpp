// Tensors on a device as tensors on the host: a device's memory is the host's, so a kernel of the CPU computes on the same bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <vector>

namespace panpipe::stand_in {

// The same bytes, sizes and strides, as a CPU tensor that owns nothing: a later user must know that the memory lives, as
// a kernel on a stream must. Other tensors are returned as they are, those of one element copied: the host may write to them.
at::Tensor on_host(const at::Tensor& tensor);
// Sizes, strides and type without bytes.
at::Tensor as_meta(const at::Tensor& tensor);
// On the host, zeros of that shape and type.
at::Tensor zeros_on_host(const at::Tensor& tensor);

// The same for what an operator is called with: a tensor, a list of them, a device.
using TensorMap = at::Tensor (*)(const at::Tensor&);
c10::IValue map_tensors(const c10::IValue& value, TensorMap map, c10::DeviceType device);
// All tensors in it, in order; undefined ones included.
std::vector<at::Tensor> tensors_in(const c10::IValue& value);

}  // namespace panpipe::stand_in
