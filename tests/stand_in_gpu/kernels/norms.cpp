// The derivative of RMSNorm in one call: on CPUs LibTorch has it as many calls, and no operator by this name.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace panpipe::stand_in {
namespace {

// y = w n with n = x r and r = rstd: with g = w dy, dx = r (g - n mean(g n)) and dw = sum(dy n). In fp32, as CUDA's.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                                     at::IntArrayRef normalized, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight, std::array<bool, 2> wanted) {
  const auto wide = [](const at::Tensor& value) { return value.scalar_type() == at::kDouble ? value : value.to(at::kFloat); };
  const at::Tensor scale = wide(rstd), normal = wide(input) * scale, given = wide(output_gradient);
  std::vector<std::int64_t> own, others;
  const std::int64_t outer = input.dim() - static_cast<std::int64_t>(normalized.size());
  for (std::int64_t i = 0; i < input.dim(); ++i) (i < outer ? others : own).push_back(i);
  std::tuple<at::Tensor, at::Tensor> made;
  if (wanted[0]) {
    const at::Tensor weighted = weight ? given * wide(*weight) : given;
    std::get<0>(made) = (scale * (weighted - normal * (weighted * normal).mean(own, true))).to(input.scalar_type());
  }
  if (wanted[1] && weight)
    std::get<1>(made) = (others.empty() ? given * normal : (given * normal).sum(others)).to(weight->scalar_type());
  return made;
}

TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("_fused_rms_norm_backward", rms_norm_backward); }

}  // namespace
}  // namespace panpipe::stand_in
