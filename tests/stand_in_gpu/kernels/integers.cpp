// Operators that LibTorch has for whole numbers on GPUs alone.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace at::native {
// Defined in ATen/native/Histogram.cpp, the CPU's own.
Tensor histogram_histc(const Tensor& self, int64_t bins, const Scalar& lowest, const Scalar& highest);
}  // namespace at::native

namespace panpipe::stand_in {
namespace {

// Experts are counted with it. Counts below 2^24 are exact in fp32.
at::Tensor histc(const at::Tensor& values, std::int64_t bins, const at::Scalar& lowest, const at::Scalar& highest) {
  if (values.is_floating_point()) return at::native::histogram_histc(values, bins, lowest, highest);
  return at::native::histogram_histc(values.to(at::kFloat), bins, lowest, highest).to(values.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("histc", histc); }

}  // namespace
}  // namespace panpipe::stand_in
