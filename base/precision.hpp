// Number formats: of a tensor's elements (DType) and of a training run (Precision).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/quantity.hpp"

namespace panpipe {

enum class DType : std::uint8_t { Float32, Float16, BFloat16, Int64, Int32, Bool, UInt8, Float64, Int16, Int8, Complex64 };

constexpr Bytes size_of(DType type) {
  switch (type) {
    case DType::Float32:
    case DType::Int32:
      return Bytes(4);
    case DType::Float16:
    case DType::BFloat16:
      return Bytes(2);
    case DType::Int16:
      return Bytes(2);
    case DType::Int64:
    case DType::Float64:
    case DType::Complex64:
      return Bytes(8);
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8:
      return Bytes(1);
  }
  return Bytes(0);
}

// The arithmetic of a training run. bf16 and fp16 are mixed precision: 2-byte compute with fp32 master weights; the -pure kinds
// keep everything in 2 bytes; tf32 stores fp32 and multiplies on tensor cores. The last four run the products of transformer
// blocks in 8 bits (fp8, mxfp8) or 4, everything else as bf16. MX formats have a scale for 32 elements, NVFP4 one for 16 and one
// for the tensor; the scales of fp8 are a choice of the recipe (costmodel/profile/recipe.hpp).
enum class Precision : std::uint8_t { Fp32, Tf32, Bf16, Fp16, Bf16Pure, Fp16Pure, Fp8, Mxfp8, Nvfp4, Mxfp4 };

constexpr bool has_narrow_products(Precision precision) { return precision >= Precision::Fp8; }

// The precision of everything except the products of blocks.
constexpr Precision outside_products(Precision precision) { return has_narrow_products(precision) ? Precision::Bf16 : precision; }

// True for 2-byte compute with fp32 master weights.
constexpr bool is_mixed(Precision precision) {
  return outside_products(precision) == Precision::Bf16 || precision == Precision::Fp16;
}

constexpr DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
    case Precision::Tf32:
      return DType::Float32;
    case Precision::Bf16:
    case Precision::Bf16Pure:
    case Precision::Fp8:
    case Precision::Mxfp8:
    case Precision::Nvfp4:
    case Precision::Mxfp4:
      return DType::BFloat16;
    case Precision::Fp16:
    case Precision::Fp16Pure:
      return DType::Float16;
  }
  return DType::Float32;
}

std::string_view name_of(DType type);           // "float32", "bfloat16" ... (PyTorch's spelling)
std::string_view name_of(Precision precision);  // "fp32", "bf16", "bf16-pure", "mxfp8" ...
std::optional<Precision> find_precision(std::string_view name);

}  // namespace panpipe
