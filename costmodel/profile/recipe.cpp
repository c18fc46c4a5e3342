#include "costmodel/profile/recipe.hpp"

#include <algorithm>
#include <array>

namespace panpipe {
namespace {

constexpr double kFp4 = 0.5;
constexpr double kE8m0In32 = 1.0 / 32, kE4m3In16 = 1.0 / 16, kFp32In128 = 4.0 / 128, kFp32InSquare = 4.0 / (128 * 128);

// From a layer's products, 15872 tokens of 4096 and 16384 features (Transformer Engine, docs/examples/gemm_profiling): an H200
// takes 22.88 ms with scales of blocks, of which casts are 2.21, and 16.79 without casts and with one scale. A B300 takes 2.69 ms
// for the casts of NVFP4, whose bytes take 1.79.
constexpr double kBlocksByRows = 0.81, kNvfp4Casts = 1.5;

// Casts, layouts and scales: Transformer Engine, docs/features/low_precision_training, and pytorch/csrc/quantizer.cpp. Weights of
// MXFP8 are gathered in 2 bytes (Megatron-LM, --reuse-grad-buf-for-mxfp8-param-ag). Rows: torchao/float8/config.py, whose gathers
// are in bf16. NVFP4: arXiv 2509.25149; its Hadamard transform, stochastic rounding and squares of weights are inside the kernels
// that cast, which read the tensor once for the two largest numbers and once more. MXFP4: AMD's recipe of MLPerf Training 6.0,
// transform and cast in one kernel (rocm.blogs.amd.com, mlperf-training-v6.0); what is gathered is not published.
constexpr std::array kRecipes = {
    Recipe{.title = "FP8 with delayed scaling",
           .second = SecondCopy::Turned,
           .compared = true,
           .megatron = "delayed",
           .transformer_engine = "DelayedScaling"},
    Recipe{.title = "FP8 with current scaling",
           .scaling = Fp8Scaling::Current,
           .reads_largest = true,
           .norm_finds_largest = true,
           .second = SecondCopy::Turned,
           .compared = true,
           .megatron = "tensorwise",
           .transformer_engine = "Float8CurrentScaling",
           .megatron_bridge = "fp8_cs",
           .torchao = "tensorwise"},
    Recipe{.title = "FP8 with scales of blocks",
           .scaling = Fp8Scaling::Blocks,
           .scales = kFp32In128,
           .weight_scales = kFp32InSquare,
           .rate_by_rows = kBlocksByRows,
           .megatron = "blockwise",
           .transformer_engine = "Float8BlockScaling",
           .megatron_bridge = "fp8_sc"},
    Recipe{.title = "FP8 with scales of rows",
           .scaling = Fp8Scaling::Rows,
           .reads_largest = true,
           .gathers_inputs = false,
           .gathers_weights = false,
           .torchao = "rowwise"},
    Recipe{.title = "FP8 with scales of rows, weight gradients in bf16",
           .scaling = Fp8Scaling::RowsExceptWeights,
           .reads_largest = true,
           .weight_gradient = false,
           .gathers_inputs = false,
           .gathers_weights = false,
           .torchao = "rowwise_with_gw_hp"},
    Recipe{.title = "MXFP8",
           .precision = Precision::Mxfp8,
           .scales = kE8m0In32,
           .weight_scales = kE8m0In32,
           .multiple = 32,
           .gathers_weights = false,
           .compared = true,
           .megatron = "mxfp8",
           .transformer_engine = "MXFP8BlockScaling",
           .megatron_bridge = "fp8_mx",
           .torchao = "mxfp8"},
    Recipe{.title = "NVFP4",
           .precision = Precision::Nvfp4,
           .element = kFp4,
           .scales = kE4m3In16,
           .weight_scales = kE4m3In16,
           .multiple = 32,
           .reads_largest = true,
           .cast_factor = kNvfp4Casts,
           .megatron = "nvfp4",
           .transformer_engine = "NVFP4BlockScaling",
           .megatron_bridge = "nvfp4",
           .torchao = "nvfp4"},
    Recipe{.title = "MXFP4",
           .precision = Precision::Mxfp4,
           .element = kFp4,
           .scales = kE8m0In32,
           .weight_scales = kE8m0In32,
           .multiple = 32,
           .gathers_inputs = false,
           .gathers_weights = false},
};

}  // namespace

std::span<const Recipe> recipes() { return kRecipes; }

namespace {

template <class Is>
const Recipe* first(Is is) {
  const auto* found = std::find_if(kRecipes.begin(), kRecipes.end(), is);
  return found == kRecipes.end() ? nullptr : found;
}

}  // namespace

const Recipe* find_recipe(Precision precision, Fp8Scaling scaling) {
  return first(
      [&](const Recipe& r) { return r.precision == precision && (precision != Precision::Fp8 || r.scaling == scaling); });
}

const Recipe* find_megatron_recipe(std::string_view name, bool four_bits) {
  return first([&](const Recipe& r) { return !name.empty() && r.megatron == name && (r.element == kFp4) == four_bits; });
}

const Recipe* find_torchao_recipe(std::string_view name) {
  return first([&](const Recipe& r) { return !name.empty() && r.torchao == name && r.precision == Precision::Fp8; });
}

std::string_view name_of(Fp8Scaling scaling) {
  constexpr std::string_view kNames[] = {"delayed", "current", "blocks", "rows", "rows-except-weights"};
  return kNames[static_cast<std::size_t>(scaling)];
}

NarrowScope narrow_scope(Precision precision, const Framework& framework) {
  return {find_recipe(precision, framework.fp8_scaling), framework.bf16_first, framework.bf16_last};
}

}  // namespace panpipe
