#include "tests/stand_in_gpu/kernels/host_views.hpp"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <optional>

namespace panpipe::stand_in {
namespace {

at::TensorOptions options_of(const at::Tensor& tensor, c10::DeviceType device) {
  return at::TensorOptions().dtype(tensor.scalar_type()).device(device);
}

at::Tensor with_marks_of(const at::Tensor& tensor, at::Tensor view) {
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) view.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor.is_conj() ? view.conj() : view;
}

}  // namespace

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (!tensor.is_cuda()) return tensor.numel() == 1 ? with_marks_of(tensor, tensor.detach().clone()) : tensor;
  const at::TensorOptions options = options_of(tensor, c10::kCPU);
  return with_marks_of(tensor, tensor.numel() == 0 ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
                                                   : at::from_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(),
                                                                   tensor.strides(), options));
}

at::Tensor as_meta(const at::Tensor& tensor) {
  // Numbers stay: an operator may take its result's type from them.
  if (!tensor.defined() || (!tensor.is_cuda() && tensor.dim() == 0)) return tensor;
  return with_marks_of(tensor, at::empty_strided(tensor.sizes(), tensor.strides(), options_of(tensor, c10::kMeta)));
}

at::Tensor zeros_on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  at::Tensor zeros = at::empty_strided(tensor.sizes(), tensor.strides(), options_of(tensor, c10::kCPU));
  zeros.zero_();
  return with_marks_of(tensor, zeros);
}

c10::IValue map_tensors(const c10::IValue& value, TensorMap map, c10::DeviceType device) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorList()) mapped.push_back(map(tensor));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      mapped.push_back(tensor ? std::optional<at::Tensor>(map(*tensor)) : std::nullopt);
    return mapped;
  }
  if (value.isDevice()) return at::Device(device);
  return value;
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  std::vector<at::Tensor> found;
  if (value.isTensor()) found.push_back(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorList()) found.push_back(tensor);
  if (value.isOptionalTensorList())
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      if (tensor) found.push_back(*tensor);
  return found;
}

}  // namespace panpipe::stand_in
