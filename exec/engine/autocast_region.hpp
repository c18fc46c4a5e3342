// While one lives, this thread computes in a lower precision where PyTorch's autocast lists say so.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace panpipe::exec {

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
