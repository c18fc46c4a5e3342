#include "planner/schedule_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/scenario/recompute_modes.hpp"

namespace panpipe::planner {
namespace {

template <class Value>
bool holds(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

bool may_choose(const Scenario& scenario, const SearchLimits& limits, std::string_view family) {
  if (!limits.whose.empty() && !holds(limits.schedules, std::string(family))) return false;
  const Node* list = scenario.document ? scenario.document->find("schedule") : nullptr;
  if (list == nullptr || list->kind != NodeKind::Sequence) return true;
  return std::any_of(list->items.begin(), list->items.end(), [&](const NodePtr& item) { return item->text == family; });
}

void check_limits(const Scenario& scenario, const SearchLimits& limits) {
  if (limits.whose.empty()) return;
  const auto refuse = [&](const char* key, const std::string& has, const std::string& help) {
    throw fault_at(scenario, key, fmt::format("{} does not have {}", limits.whose, has), help);
  };
  if (!is_open(scenario, "schedule") && !holds(limits.schedules, scenario.schedule.name))
    refuse("schedule", fmt::format("the schedule {}", scenario.schedule.csv.empty() ? scenario.schedule.name : "of a file"),
           fmt::format("it has {}; or leave it open: schedule: auto", fmt::join(limits.schedules, ", ")));
  if (!limits.tensor && scenario.degrees.tensor > 1 && !is_open(scenario, "parallel.tensor"))
    refuse("parallel.tensor", "tensor parallelism here", "use parallel.tensor 1");
  // A stated 0 divides nothing, which every trainer can do.
  if (scenario.degrees.zero > 0 && !is_open(scenario, "parallel.zero") && !holds(limits.zero, scenario.degrees.zero))
    refuse("parallel.zero", fmt::format("ZeRO {} here", scenario.degrees.zero),
           fmt::format("it has {}", fmt::join(limits.zero, ", ")));
  if (!is_open(scenario, "recompute") && !holds(limits.recompute, scenario.recompute))
    refuse("recompute", fmt::format("{} recompute", name_of(scenario.recompute)), "leave it open: recompute: auto");
}

}  // namespace panpipe::planner
