// Settings with which a step that does not fit, or hardly does, would have room; each is predicted, by itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

struct MemoryHint {
  std::string_view setting;   // as an override: "framework.allocator=expandable-segments"
  std::string_view meaning;   // in the trainer's words; empty: the setting itself
  Bytes need{0}, limit{0};    // of the fullest device, with the setting
  Bytes saved{0};             // by which the need is smaller
  std::string_view fits_how;  // with the setting
};

// Of the settings that this step does not have and its trainer's preset knows (the allocator's where it is replayed), those with
// which more room is left than without: "not" becomes "hardly", and so on. In the order of what they cost in time, least first.
// Empty where the step fits surely or probably, or no limit is known. Cuts and schedule stay. Takes an estimate for each setting.
std::vector<MemoryHint> memory_hints(const Scenario& scenario, const Plan& plan);

// "framework.allocator=expandable-segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True) needs 1.50 GiB less: it fits
// surely"
std::string to_text(const MemoryHint& hint);

}  // namespace panpipe
