#include "base/precision.hpp"

#include <algorithm>
#include <iterator>

#include "base/index.hpp"

namespace panpipe {

namespace {

// In the order of the enumerations.
constexpr std::string_view kTypes[] = {"float32", "float16", "bfloat16", "int64", "int32",    "bool",
                                       "uint8",   "float64", "int16",    "int8",  "complex64"};
constexpr std::string_view kPrecisions[] = {"fp32",      "tf32", "bf16",  "fp16",  "bf16-pure",
                                            "fp16-pure", "fp8",  "mxfp8", "nvfp4", "mxfp4"};

}  // namespace

std::string_view name_of(DType type) { return kTypes[at(type)]; }

std::string_view name_of(Precision precision) { return kPrecisions[at(precision)]; }

std::optional<Precision> find_precision(std::string_view name) {
  const auto* const found = std::find(std::begin(kPrecisions), std::end(kPrecisions), name);
  return found == std::end(kPrecisions) ? std::nullopt : std::optional(static_cast<Precision>(found - kPrecisions));
}

}  // namespace panpipe
