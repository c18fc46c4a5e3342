// An order with what the arena found of it, in a file that tools/check-certificate counts again without Panpipe.
#pragma once

#include <string>

#include "study/arena/arena.hpp"

namespace panpipe::study {

// Who handed the order in, and where it is described; both may be empty.
struct Submission {
  std::string by, reference;
};

// panpipe-order-certificate/1 for the first entrant under the first ratio. Costs are of one stage (of one slice), the makespan in
// the same unit; of an order without a flush it is the period, and the rows are of steps in a row. Throws InputError if the order
// is refused or not legal, and if it states transfers.
std::string to_certificate(const Arena& arena, const Submission& submission);

}  // namespace panpipe::study
