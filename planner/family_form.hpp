// What planners know of a schedule family before they make its orders: where its stages lie and which passes it has. It is read
// off one order of the family, so that a new family is planned without being described a second time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe::planner {

enum class StagePlacement : std::uint8_t {
  Line,   // a stage on each rank
  Loop,   // stage s on rank s mod p
  Vee,    // to the last rank and back: rank r holds stages r and 2p-1-r, and so on
  Opaque  // anything else, and orders that depend on costs: only what holds for every order is known
};

struct FamilyForm {
  const ScheduleFamily* family = nullptr;  // none: the schedule as the scenario states it
  std::string_view name;                   // the family's
  StagePlacement placement = StagePlacement::Opaque;
  int chunks = 1;     // stages a rank holds along one way through the model; 0 = as many as option stages_per_rank says
  bool split = true;  // has input gradients apart from weight gradients
  bool whole = true;  // has full backwards
  bool woven = true;  // has groups, which hide collectives

  bool open_chunks() const { return chunks == 0; }
  bool last() const { return family != nullptr && placement == StagePlacement::Opaque; }  // tried on the best plans' degrees
  ScheduleOptions options(int stages_per_rank) const;
  bool exists(int ranks, int stages_per_rank, int microbatches) const;
};

// Of every family that planners try, in the order of schedule_families(), and last the one for what the scenario states.
const std::vector<FamilyForm>& forms();
int form_named(std::string_view name);  // -1 = none

}  // namespace panpipe::planner
