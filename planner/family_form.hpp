// The properties of a schedule family that planners know without making all its orders: placement of stages and kinds of passes.
// They are derived from one order of the family, so a new family needs no second description.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe::planner {

enum class StagePlacement : std::uint8_t {
  Line,   // one stage per rank
  Loop,   // stage s on rank s mod p
  Vee,    // to the last rank and back: rank r holds stages r and 2p-1-r, and so on
  Opaque  // anything else, and orders that depend on costs: only properties of every order are known
};

struct FamilyForm {
  const ScheduleFamily* family = nullptr;  // nullptr: the schedule that the scenario states
  std::string_view name;                   // the family's name
  StagePlacement placement = StagePlacement::Opaque;
  int chunks = 1;     // stages per rank in one pass through the model; 0 = set by the option stages_per_rank
  bool split = true;  // has separate input and weight gradients
  bool whole = true;  // has full backwards
  bool woven = true;  // has groups, which hide collectives

  bool open_chunks() const { return chunks == 0; }
  bool last() const {
    return family != nullptr && placement == StagePlacement::Opaque;
  }  // tried on the degrees of the best plans
  ScheduleOptions options(int stages_per_rank) const;
  bool exists(int ranks, int stages_per_rank, int microbatches) const;
};

// The forms of all families that planners try, in the order of schedule_families(), then the form of the scenario's own schedule.
const std::vector<FamilyForm>& forms();
int form_named(std::string_view name);  // -1 = none

}  // namespace panpipe::planner
