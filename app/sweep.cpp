#include "app/sweep.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/version.hpp"
#include "planner/planner.hpp"

namespace panpipe::app {

study::SweepGrid grid_of(SweepRequest request) {
  const std::string& engine = request.engine;
  if (engine != "estimate" && engine != "simulate")
    throw InputError(
        fmt::format("--engine is estimate or simulate, not '{}'{}", engine, suggestion(engine, {"estimate", "simulate"})), "",
        code::kUnknownName);
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
