#include "exec/engine/stage/autocast_region.hpp"

#include <ATen/autocast_mode.h>

#include <algorithm>

#include "exec/engine/stage/scalar_types.hpp"

namespace panpipe::exec {

std::optional<c10::ScalarType> autocast_of(const OperatorGraph& graph, Precision precision) {
  if (precision != Precision::Bf16 && precision != Precision::Fp16) return std::nullopt;
  const bool wide = std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& tensor) {
    return tensor.role == TensorRole::Parameter && tensor.dtype == DType::Float32;
  });
  return wide ? std::optional(scalar_type(compute_dtype(precision))) : std::nullopt;
}

// The cache of cast weights is one per process; a weight cast for one rank's thread would be cleared by another's, and one cast
// without a graph would be found with one: off.
AutocastRegion::AutocastRegion(std::optional<c10::ScalarType> dtype, c10::DeviceType device) : device_(device) {
  if (!dtype) return;
  before_ = at::autocast::get_autocast_dtype(device);
  was_enabled_ = at::autocast::is_autocast_enabled(device);
  cache_was_enabled_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_dtype(device, *dtype);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastRegion::~AutocastRegion() {
  if (!before_) return;
  at::autocast::set_autocast_dtype(device_, *before_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_cache_enabled(cache_was_enabled_);
}

}  // namespace panpipe::exec
