#include "schedule/schedule_request.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/text/quantity_text.hpp"
#include "schedule/find_family.hpp"
#include "schedule/memory/memory_actions.hpp"

namespace panpipe {
namespace {

bool is_family(const std::string& name) { return find_family(name) != nullptr; }

bool is_file_name(const std::string& name) {
  if (is_family(name)) return false;
  struct stat status {};
  return name.find('/') != std::string::npos || name.find('.') != std::string::npos || stat(name.c_str(), &status) == 0;
}

// One number, or one for every stage, separated by '/'.
std::vector<double> parse_cost_list(const std::string& item, const std::string& text, bool each) {
  std::vector<double> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const auto value = parse_number(text.substr(at, end - at));
    if (!value.value || !(*value.value >= 0) || (!each && end < text.size()))
      throw InputError(fmt::format("--costs takes KEY=NUMBER with numbers from 0, such as F=10,I=12,W=8,comm=1, not '{}'{}", item,
                                   value.problem.find("out of range") == std::string::npos ? "" : "; " + value.problem));
    values.push_back(*value.value);
    at = end + 1;
  }
  return values;
}

void set_stage_costs(PassCosts& costs, const std::array<std::vector<double>, 3>& lists) {
  std::size_t stages = 1;
  for (const auto& list : lists) stages = std::max(stages, list.size());
  if (stages == 1) return;
  for (const auto& list : lists)
    if (list.size() > 1 && list.size() != stages)
      throw InputError(
          fmt::format("--costs gives {} numbers for one pass and {} for another: one for each stage", list.size(), stages));
  const auto of = [&](std::size_t pass, std::size_t stage, double one) {
    return lists[pass].size() > 1 ? lists[pass][stage] : one;
  };
  for (std::size_t s = 0; s < stages; ++s) costs.stages.push_back({of(0, s, costs.F), of(1, s, costs.I), of(2, s, costs.W)});
}

}  // namespace

bool take_braid(ScheduleOptions& options) {
  const auto braid = options.find("braid");
  if (braid == options.end()) return false;
  const std::string value = braid->second;
  if (value != "split" && value != "atomic")
    throw InputError(fmt::format("option 'braid' must be atomic or split, not '{}'", value));
  options.erase(braid);
  return value == "split";
}

PassCosts parse_pass_costs(const std::string& text) {
  PassCosts costs;
  std::vector<std::string> given;
  std::array<std::vector<double>, 3> lists;  // of F, I and W
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string key = item.substr(0, equals);
    const std::size_t pass = key == "F" ? 0 : key == "I" ? 1 : key == "W" ? 2 : 3;
    const std::vector<double> values = parse_cost_list(item, equals < item.size() ? item.substr(equals + 1) : "", pass < 3);
    if (std::find(given.begin(), given.end(), key) != given.end()) throw InputError(fmt::format("--costs gives {} twice", key));
    given.push_back(key);
    if (pass < 3) {
      (pass == 0 ? costs.F : pass == 1 ? costs.I : costs.W) = values.front();
      lists[pass] = values;
    } else if (key == "B") {
      costs.B = values.front();
    } else if (key == "comm") {
      costs.comm = values.front();
    } else if (key == "offload") {
      costs.offload = values.front();
    } else if (key == "reload") {
      costs.reload = values.front();
    } else {
      throw InputError(fmt::format("--costs has no '{}'; there are F, I, W, B, comm, offload, reload", key));
    }
  }
  set_stage_costs(costs, lists);
  return costs;
}

Schedule obtain_schedule(const ScheduleRequested& asked, const ScheduleOptions& options, const PassCosts& costs) {
  if (!is_file_name(asked.name_or_file)) {
    if (!asked.ranks || !asked.microbatches) {
      if (!is_family(asked.name_or_file)) make_schedule(asked.name_or_file, 1, 1, {});  // reports that it is unknown
      throw InputError(
          fmt::format("schedule {0} needs both sizes: panpipe schedule {0} --ranks 4 --microbatches 8", asked.name_or_file));
    }
    return make_schedule(asked.name_or_file, *asked.ranks, *asked.microbatches, options, costs);
  }
  if (asked.name_or_file.ends_with(".yaml") || asked.name_or_file.ends_with(".yml"))
    throw InputError({diagnostic_of_file(
        asked.name_or_file, "this is no order of passes, which is a CSV file, a row for each rank",
        fmt::format("of a scenario, panpipe estimate {} -o DIR draws the step into schedule.svg", asked.name_or_file))});
  Schedule schedule = apply_memory_options(load_schedule_csv(asked.name_or_file), options, costs);
  ScheduleOptions rest = options;
  for (const auto& option : memory_options()) rest.erase(std::string(option.first));
  if (!rest.empty())
    throw InputError(fmt::format("option '{}' makes no sense for an order from a file: only braid, recompute and offload do",
                                 rest.begin()->first));
  const auto agree = [&](const char* what, const std::optional<int>& size, int found) {
    if (size && *size != found)
      throw InputError(fmt::format("--{} {} does not match {}, which has {}", what, *size, asked.name_or_file, found));
  };
  agree("ranks", asked.ranks, schedule.ranks);
  agree("microbatches", asked.microbatches, schedule.microbatches);
  return schedule;
}

}  // namespace panpipe
