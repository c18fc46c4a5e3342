// Common to all methods: the description of a plan that the engines can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/prediction/prediction.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

// A candidate with the plan's stages and schedule, and its figures on idle links. `graph`: the plan with the memory that answers
// state. Summary and settings are the method's.
Candidate described(const CostModel& model, std::shared_ptr<const Plan> plan, const TaskGraph& graph);

// A schedule as the value of the scenario's key: "{name: zb-v, memory: 8}".
std::string schedule_setting(const std::string& name, const ScheduleOptions& options);

// A candidate's metrics from an estimate or a simulation.
std::vector<std::pair<std::string, double>> figures_of(const Prediction& prediction);

// nullptr: not among them.
const double* figure_named(const std::vector<std::pair<std::string, double>>& metrics, std::string_view key);

// Whether the need leaves the error of the memory model free, less than that, or nothing. Enough where no limit is known.
enum class Room : std::uint8_t { Enough, Hardly, None };
Room room_of(const Candidate& candidate);
bool fits_in_memory(const Candidate& candidate);

// Keeps the order of those with as much room. Where costs are given, memory is too, and what fits hardly fits all the same.
void order_by_room(const Scenario& scenario, std::vector<Candidate>& candidates);

// The share of the first candidate's deciding figure that another one would save, which stands behind it for its room; nullopt:
// it saves nothing.
std::optional<double> gain_without_room(const Answer& answer, const Candidate& candidate);

// Throws InputError for a figure that is no number.
void check_finite(const Candidate& candidate);

}  // namespace panpipe::planner
