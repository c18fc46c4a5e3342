// Why an order cannot finish.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "costmodel/schedule/schedule.hpp"
#include "costmodel/schedule/walk.hpp"

namespace panpipe {

// `reached` is what walk() returned: actions that each rank got through. The first problem names a cycle of ranks, the others say
// what each further blocked rank waits for.
std::vector<ScheduleProblem> explain_deadlock(const Schedule& schedule, const Products& products,
                                              const std::vector<std::size_t>& reached);

// An action as text from its parts: "3SEND_F0", "0B2.1".
std::string text_of(ActionKind kind, int stage, int microbatch, int split);

}  // namespace panpipe
