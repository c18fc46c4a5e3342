// Matrix products, attention and memory traffic of a device.
#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

#include "exec/engine/profile/device_meter.hpp"
#include "exec/engine/stage/float32_products.hpp"

namespace panpipe::exec {
namespace {

constexpr std::uint64_t kSeed = 20250;

struct ProductSize {
  std::int64_t m, n, k;
};
// Squares; layers of GPT-2 of 124M and 1.5B over 4096 tokens and the smaller
// one's head; layers of 4096 features as Llama's of 7 to 8B; few rows.
constexpr std::array kProducts = {ProductSize{512, 512, 512},     ProductSize{1024, 1024, 1024},  ProductSize{128, 4096, 4096},
                                  ProductSize{4096, 768, 768},    ProductSize{4096, 3072, 768},   ProductSize{4096, 768, 3072},
                                  ProductSize{2048, 2048, 2048},  ProductSize{4096, 1600, 1600},  ProductSize{4096, 6400, 1600},
                                  ProductSize{4096, 1600, 6400},  ProductSize{4096, 4096, 4096},  ProductSize{4096, 50304, 768},
                                  ProductSize{4096, 14336, 4096}, ProductSize{4096, 4096, 14336}, ProductSize{8192, 8192, 8192}};

struct ProductForm {
  const char* name;
  at::ScalarType type;
  Precision products;
};
constexpr std::array kProductForms = {
    ProductForm{"fp32", at::kFloat, Precision::Fp32}, ProductForm{"tf32", at::kFloat, Precision::Tf32},
    ProductForm{"bf16", at::kBFloat16, Precision::Bf16}, ProductForm{"fp16", at::kHalf, Precision::Fp16},
    ProductForm{"fp8", at::kFloat8_e4m3fn, Precision::Fp8}};

at::Tensor drawn(at::IntArrayRef sizes, at::ScalarType type, c10::Device device) {
  at::manual_seed(kSeed);
  // Small numbers: their sums stay finite in 2-byte formats.
  return at::randn(sizes, at::TensorOptions(device).dtype(at::kFloat)).mul_(0.1).to(type);
}

std::function<void()> product(const ProductForm& form, const ProductSize& shape, c10::Device device) {
  set_float32_products(form.products);
  const at::Tensor left = drawn({shape.m, shape.k}, form.type, device);
  // As at::linear reads a weight: (out, in).
  const at::Tensor weight = drawn({shape.n, shape.k}, form.type, device);
  if (form.products == Precision::Fp8) {
    const at::Tensor one = at::ones({}, at::TensorOptions(device).dtype(at::kFloat));
    return [=] { at::_scaled_mm(left, weight.t(), one, one, {}, {}, at::kBFloat16, /*use_fast_accum=*/true); };
  }
  return [=] { at::linear(left, weight); };
}

}  // namespace

void add_products(DeviceMeter& meter) {
  const c10::Device device = meter.device();
  for (const ProductForm& form : kProductForms) {
    const bool tensor_cores =
        form.products == Precision::Tf32 || form.products == Precision::Fp16 || form.products == Precision::Fp8;
    if (device.is_cpu() && tensor_cores) continue;  // a CPU's products are fp32, and bf16 where it has instructions for them
    const auto bytes = static_cast<std::int64_t>(c10::elementSize(form.type));
    for (const ProductSize& shape : kProducts) {
      if (4 * std::max({shape.m * shape.k, shape.n * shape.k, shape.m * shape.n}) > meter.largest()) continue;
      const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
      meter.add({{"quantity", "product"},
                 {"form", form.name},
                 {"m", shape.m},
                 {"n", shape.n},
                 {"k", shape.k},
                 {"flops", flops},
                 {"bytes", bytes * (shape.m * shape.k + shape.n * shape.k) +
                               (form.products == Precision::Fp8 ? 2 : bytes) * shape.m * shape.n}},
                [=] { return product(form, shape, device); });
    }
  }
}

void add_attention(DeviceMeter& meter) {
  const c10::Device device = meter.device();
  const bool cpu = device.is_cpu();
  const at::ScalarType type = cpu ? at::kFloat : at::kBFloat16;
  constexpr std::int64_t kFeatures = 2048;
  for (const std::int64_t head : {64, 128}) {
    for (const std::int64_t tokens : {256, 512, 1024, 2048, 4096, 8192}) {
      const std::int64_t heads = kFeatures / head, batch = cpu || tokens < 512 ? 1 : std::max<std::int64_t>(1, 4096 / tokens);
      // Two products of 2 x head a score, half of the scores under a causal mask; the backward has 2.5 times the work.
      const double work =
          2.0 * static_cast<double>(batch * heads * head) * static_cast<double>(tokens) * static_cast<double>(tokens);
      for (const bool backward : {false, true}) {
        meter.add({{"quantity", backward ? "attention_backward" : "attention_forward"},
                   {"form", cpu ? "fp32" : "bf16"},
                   {"batch", batch},
                   {"heads", heads},
                   {"tokens", tokens},
                   {"head", head},
                   {"flops", backward ? 2.5 * work : work}},
                  [=]() -> std::function<void()> {
                    std::vector<at::Tensor> inputs;
                    for (int i = 0; i < 3; ++i)
                      inputs.push_back(drawn({batch, heads, tokens, head}, type, device).requires_grad_());
                    const auto forward = [inputs] {
                      return at::scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {}, 0, /*is_causal=*/true);
                    };
                    if (!backward) return [forward] { forward(); };
                    const at::Tensor out = forward(), gradient = at::ones_like(out);
                    return [=] { torch::autograd::grad({out}, inputs, {gradient}, /*retain_graph=*/true); };
                  });
      }
    }
  }
}

void add_memory_traffic(DeviceMeter& meter) {
  const c10::Device device = meter.device();
  const at::TensorOptions options = at::TensorOptions(device).dtype(at::kFloat);
  for (std::int64_t bytes = 64 << 10; bytes <= std::min<std::int64_t>(1 << 30, meter.largest()); bytes *= 4) {
    const std::int64_t elements = bytes / 4;
    for (const bool sum : {false, true}) {
      meter.add({{"quantity", sum ? "elementwise" : "copy"}, {"size", bytes}, {"bytes", (sum ? 3 : 2) * bytes}},
                [=]() -> std::function<void()> {
                  const at::Tensor from = at::ones({elements}, options), to = at::ones({elements}, options);
                  if (!sum) return [=] { to.copy_(from); };
                  const at::Tensor other = at::ones({elements}, options);
                  return [=] {
                    at::Tensor out = to;
                    at::add_out(out, from, other);
                  };
                });
    }
  }
}

}  // namespace panpipe::exec
