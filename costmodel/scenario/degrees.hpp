// How a step is divided over devices and time. Costs are asked with it, so that a search may ask for degrees other than the
// scenario's.
#pragma once

#include <compare>

namespace panpipe {

struct Degrees {
  int pipeline = 1, tensor = 1, data = 1;  // ranks along each axis
  int virtual_stages = 1;                  // stages per rank
  int zero = 0;                            // 0..3, over the data-parallel ranks
  bool sequence_parallel = false;
  int micro = 1;         // samples per microbatch
  int microbatches = 1;  // per step of one replica

  auto operator<=>(const Degrees&) const = default;
};

}  // namespace panpipe
