// The request of `panpipe sweep` and panpipe.sweep(): a grid over keys of a scenario.
#pragma once

#include <string>
#include <vector>

#include "study/sweep/sweep.hpp"

namespace panpipe::app {

struct SweepRequest {
  std::string scenario;  // as the user named it
  std::string engine = "estimate";
  std::string method;                  // searches the best plan of each cell; empty: predicts the scenario's own
  std::vector<std::string> overrides;  // in all cells
  std::vector<study::SweepAxis> axes;
};

// Throws InputError for an unknown engine or method.
study::SweepGrid grid_of(SweepRequest request);

}  // namespace panpipe::app
