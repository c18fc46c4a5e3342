// During its lifetime, this thread computes in a lower precision according to PyTorch's autocast lists.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "base/precision.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// The type of products under autocast. A graph in fp32 (an exported one) reaches mixed precision through autocast; built-in
// graphs already have their precision, so the result is nullopt.
std::optional<c10::ScalarType> autocast_of(const OperatorGraph& graph, Precision precision);

class AutocastRegion {
 public:
  AutocastRegion(std::optional<c10::ScalarType> dtype, c10::DeviceType device);  // nullopt: no change
  ~AutocastRegion();
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

 private:
  std::optional<c10::ScalarType> before_;
  c10::DeviceType device_;
  bool was_enabled_ = false, cache_was_enabled_ = false;
};

}  // namespace panpipe::exec
