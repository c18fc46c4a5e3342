// Keeps scenarios that were read, planned and lowered for the next call, because a repeated prediction spends most of its time on
// these steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/predict.hpp"
#include "python/binding/scenario_input.hpp"

namespace panpipe::python {

// Returns a kept scenario if all its files still hold the same bytes, else a new one. Does not need the GIL; thread-safe.
std::shared_ptr<const app::PlannedScenario> cached_scenario(const ScenarioInput& input, const std::vector<std::string>& overrides,
                                                            const std::string& plan_file);
void clear_cached_scenarios();

}  // namespace panpipe::python
