#include "base/precision.hpp"

#include <array>
#include <utility>

namespace panpipe {

namespace {

constexpr std::array<std::pair<Precision, std::string_view>, 10> kPrecisions = {{
    {Precision::Fp32, "fp32"},
    {Precision::Tf32, "tf32"},
    {Precision::Bf16, "bf16"},
    {Precision::Fp16, "fp16"},
    {Precision::Bf16Pure, "bf16-pure"},
    {Precision::Fp16Pure, "fp16-pure"},
    {Precision::Fp8, "fp8"},
    {Precision::Mxfp8, "mxfp8"},
    {Precision::Nvfp4, "nvfp4"},
    {Precision::Mxfp4, "mxfp4"},
}};

}  // namespace

std::string_view name_of(DType type) {
  switch (type) {
    case DType::Float32:
      return "float32";
    case DType::Float16:
      return "float16";
    case DType::BFloat16:
      return "bfloat16";
    case DType::Int64:
      return "int64";
    case DType::Int32:
      return "int32";
    case DType::Bool:
      return "bool";
    case DType::UInt8:
      return "uint8";
    case DType::Float64:
      return "float64";
    case DType::Int16:
      return "int16";
    case DType::Int8:
      return "int8";
    case DType::Complex64:
      return "complex64";
  }
  return "?";
}

std::string_view name_of(Precision precision) {
  for (const auto& [value, name] : kPrecisions)
    if (value == precision) return name;
  return "?";
}

std::optional<Precision> find_precision(std::string_view name) {
  for (const auto& [value, known] : kPrecisions)
    if (known == name) return value;
  return std::nullopt;
}

}  // namespace panpipe
