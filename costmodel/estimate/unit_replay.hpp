// Times of a graph whose passes run unit by unit, on idle links. A cell is run when everything its members wait for is known;
// its members start each with its own inputs. docs/models/braids.md.
#pragma once

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Throws NoAnswer when the order cannot finish, with to_text of the deadlock.
TaskTimes replay_by_units(const TaskGraph& graph);

}  // namespace panpipe
