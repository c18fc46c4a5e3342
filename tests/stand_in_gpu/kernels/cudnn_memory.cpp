#include "tests/stand_in_gpu/kernels/cudnn_memory.hpp"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/native/ConvUtils.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace panpipe::stand_in {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// cuDNN takes operands that are dense in the format of the result.
at::MemoryFormat format_of(const at::Tensor& input, const at::Tensor& weight) {
  return at::native::cudnn_conv_suggest_memory_format(input, weight);
}

at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef padding, c10::SymIntArrayRef stride,
                   c10::SymIntArrayRef dilation, c10::SymInt, bool, bool, bool) {
  const auto format = format_of(input, weight);
  const at::Tensor dense = input.contiguous(format), weights = weight.contiguous(format);
  std::vector<std::int64_t> sizes = {input.size(0), weight.size(0)};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    const auto at = static_cast<std::size_t>(d - 2);
    const std::int64_t reach = dilation[at].expect_int() * (weight.size(d) - 1) + 1;
    sizes.push_back((input.size(d) + 2 * padding[at].expect_int() - reach) / stride[at].expect_int() + 1);
  }
  return at::empty(sizes, input.options().memory_format(format));
}

at::Tensor transposed(const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef padding,
                      c10::SymIntArrayRef output_padding, c10::SymIntArrayRef stride, c10::SymIntArrayRef dilation,
                      c10::SymInt groups, bool, bool, bool) {
  const auto format = format_of(input, weight);
  const at::Tensor dense = input.contiguous(format), weights = weight.contiguous(format);
  std::vector<std::int64_t> sizes = {input.size(0), weight.size(1) * groups.expect_int()};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    const auto at = static_cast<std::size_t>(d - 2);
    const std::int64_t reach = dilation[at].expect_int() * (weight.size(d) - 1) + 1;
    sizes.push_back((input.size(d) - 1) * stride[at].expect_int() - 2 * padding[at].expect_int() + reach +
                    output_padding[at].expect_int());
  }
  return at::empty(sizes, input.options().memory_format(format));
}

Results backward(const at::Tensor& output_gradient, const at::Tensor& input, const at::Tensor& weight,
                 at::OptionalSymIntArrayRef bias_sizes, c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool,
                 c10::SymIntArrayRef, c10::SymInt, std::array<bool, 3> wanted) {
  const auto format = format_of(input, weight);
  const at::Tensor gradient = output_gradient.contiguous(format), weights = weight.contiguous(format);
  Results made;
  if (wanted[0]) std::get<0>(made) = at::empty(input.sizes(), input.options().memory_format(format));
  if (wanted[1]) {
    const at::Tensor dense = input.contiguous(format);
    std::get<1>(made) = at::empty(weight.sizes(), weight.options().memory_format(format));
  }
  if (wanted[2] && bias_sizes) {
    std::vector<std::int64_t> others = {0};
    for (std::int64_t d = 2; d < gradient.dim(); ++d) others.push_back(d);
    std::get<2>(made) = gradient.sum(others);
  }
  return made;
}

// Without the space that cuDNN reserves for its backward of some shapes.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> norm(const at::Tensor& input, const at::Tensor& weight,
                                                                const std::optional<at::Tensor>&,
                                                                const std::optional<at::Tensor>&,
                                                                const std::optional<at::Tensor>&, bool training, double, double) {
  const at::Tensor result = at::empty_like(input), none = at::empty({0}, input.options().dtype(at::kByte));
  if (!training) return {result, at::empty({0}, weight.options()), at::empty({0}, weight.options()), none};
  return {result, at::empty_like(weight), at::empty_like(weight), none};
}

Results norm_backward(const at::Tensor& input, const at::Tensor& output_gradient, const at::Tensor& weight,
                      const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                      const std::optional<at::Tensor>&, double, const at::Tensor&) {
  const at::Tensor dense = output_gradient.contiguous(input.suggest_memory_format());
  return {at::empty_like(input), at::empty_like(weight), at::empty_like(weight)};
}

}  // namespace

void install_cudnn_memory(torch::Library& library) {
  // Attention by PyTorch's own kernels: cuDNN's are preferred from compute capability 9 on.
  at::globalContext().setSDPUseCuDNN(false);
  library.impl("cudnn_convolution", TORCH_FN(forward));
  library.impl("cudnn_convolution_transpose", TORCH_FN(transposed));
  library.impl("cudnn_batch_norm", TORCH_FN(norm));
  library.impl("cudnn_batch_norm_backward", TORCH_FN(norm_backward));
  library.impl("convolution_backward", TORCH_FN(backward));
}

}  // namespace panpipe::stand_in
