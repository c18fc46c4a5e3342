// Converts element types between Panpipe and LibTorch.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/error.hpp"
#include "base/precision.hpp"

namespace panpipe::exec {

inline at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::Float32:
      return at::kFloat;
    case DType::Float16:
      return at::kHalf;
    case DType::BFloat16:
      return at::kBFloat16;
    case DType::Int64:
      return at::kLong;
    case DType::Int32:
      return at::kInt;
    case DType::Bool:
      return at::kBool;
    case DType::UInt8:
      return at::kByte;
    case DType::Float64:
      return at::kDouble;
    case DType::Int16:
      return at::kShort;
    case DType::Int8:
      return at::kChar;
    case DType::Complex64:
      return at::kComplexFloat;
  }
  PANPIPE_CHECK(false, "unknown element type");
}

}  // namespace panpipe::exec
