// While one lives, this thread computes in a lower precision where PyTorch's autocast lists say so.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "base/precision.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// What products are computed in: a graph in fp32 (an exported one) reaches mixed precision through autocast; built-in graphs are
// in their precision already, and nothing comes back.
std::optional<c10::ScalarType> autocast_of(const OperatorGraph& graph, Precision precision);

// Does autocast cast every fp32 operand of this operator ("aten::linear"), on a CPU and on a GPU? Of products that read weights.
bool autocast_lowers(std::string_view name);

class AutocastRegion {
 public:
  AutocastRegion(std::optional<c10::ScalarType> dtype, c10::DeviceType device);  // nullopt: nothing changes
  ~AutocastRegion();
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

 private:
  std::optional<c10::ScalarType> before_;
  c10::DeviceType device_;
  bool was_enabled_ = false, cache_was_enabled_ = false;
};

}  // namespace panpipe::exec
