#include "planner/pfeife/tried_schedules.hpp"

#include <functional>

#include <fmt/format.h>

#include "base/error.hpp"
#include "planner/family_form.hpp"
#include "planner/schedule_choice.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

using Add = std::function<void(const std::string& name, const ScheduleOptions& options)>;

// As the published planner enumerates them: loop_batch in the ranks and the divisors of the microbatches above.
void add_pfeife(const Scenario& scenario, int stages, const Add& add) {
  const auto chosen = [&](const std::string& option) -> std::vector<std::string> {
    const auto found = scenario.schedule.options.find(option);
    if (found == scenario.schedule.options.end() || is_open(scenario, "schedule." + option)) return {};
    return {found->second};
  };
  const int ranks = scenario.degrees.pipeline, microbatches = scenario.degrees.microbatches;
  std::vector<std::string> batches = chosen("loop_batch"), ahead = chosen("prefetch");
  if (batches.empty() && stages == 1) {
    batches.push_back(std::to_string(microbatches));
  } else if (batches.empty() && microbatches >= ranks) {
    batches.push_back(std::to_string(ranks));
    for (int batch = ranks + 1; batch <= microbatches; ++batch)
      if (microbatches % batch == 0) batches.push_back(std::to_string(batch));
  }
  if (ahead.empty())
    for (int prefetch = 0; prefetch < ranks; ++prefetch) ahead.push_back(std::to_string(prefetch));
  for (const std::string& batch : batches)
    for (const std::string& prefetch : ahead)
      add("pfeife", {{"stages_per_rank", std::to_string(stages)}, {"loop_batch", batch}, {"prefetch", prefetch}});
}

}  // namespace

std::string to_text(const TriedSchedule& member) {
  std::string text = member.name;
  for (const char* key : {"stages_per_rank", "loop_batch", "prefetch"})
    if (const auto found = member.options.find(key); found != member.options.end())
      text += fmt::format(", {} {}", key, found->second);
  for (const auto& [key, value] : member.options)
    if (key != "stages_per_rank" && key != "loop_batch" && key != "prefetch") text += fmt::format(", {} {}", key, value);
  return text;
}

bool chooses_stages(const Scenario& scenario) {
  if (!is_open(scenario, "parallel.virtual_stages") || !is_open(scenario, "schedule.stages_per_rank")) return false;
  if (is_open(scenario, "schedule")) return true;
  return scenario.schedule.csv.empty() && has_option(scenario.schedule.name, "stages_per_rank");
}

TriedSchedules tried_schedules(const Scenario& scenario, int stages_per_rank, bool split_backward) {
  TriedSchedules family;
  const Add add = [&](const std::string& name, const ScheduleOptions& options) {
    try {
      family.members.push_back(
          {name, options, make_schedule(name, scenario.degrees.pipeline, scenario.degrees.microbatches, options)});
    } catch (const InputError& error) {
      family.absent.push_back(fmt::format("{} is unavailable: {}", name, error.what()));
    }
  };
  const ScheduleRequest& request = scenario.schedule;
  if (!is_open(scenario, "schedule")) {
    if (!request.csv.empty()) {
      family.members.push_back({request.csv, {}, stated_order(request)});
    } else if (request.name == "pfeife" && request.options.count("execution") == 0) {
      add_pfeife(scenario, stages_per_rank, add);
    } else {
      ScheduleOptions options = request.options;
      if (has_option(request.name, "stages_per_rank")) options["stages_per_rank"] = std::to_string(stages_per_rank);
      add(request.name, options);
    }
    return family;
  }
  if (may_choose(scenario, "pfeife")) add_pfeife(scenario, stages_per_rank, add);
  // Other families over the same cuts: those with one chain of stages and no groups, whose order no costs decide.
  for (const FamilyForm& form : forms()) {
    if (form.placement == StagePlacement::Opaque || form.woven || (form.split && !split_backward)) continue;
    if (!may_choose(scenario, form.name)) continue;
    if (form.open_chunks() ? stages_per_rank > 1 : form.chunks == stages_per_rank)
      add(std::string(form.name), form.options(stages_per_rank));
  }
  return family;
}

}  // namespace panpipe::planner
