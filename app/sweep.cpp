#include "app/sweep.hpp"

#include <utility>

#include "base/option_fault.hpp"
#include "base/version.hpp"
#include "planner/planner.hpp"

namespace panpipe::app {

study::SweepGrid grid_of(SweepRequest request) {
  if (request.engine != "estimate" && request.engine != "simulate")
    throw unknown_choice("engine", request.engine, {"estimate", "simulate"});
  if (!request.method.empty()) planner::method_named(request.method);
  study::SweepGrid grid;
  grid.version = kVersion;
  grid.scenario = std::move(request.scenario);
  grid.engine = std::move(request.engine);
  grid.method = std::move(request.method);
  grid.sets = std::move(request.overrides);
  grid.axes = std::move(request.axes);
  return grid;
}

}  // namespace panpipe::app
