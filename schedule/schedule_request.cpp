#include "schedule/schedule_request.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/option_fault.hpp"
#include "base/text/characters.hpp"
#include "base/text/quantity_text.hpp"
#include "schedule/find_family.hpp"
#include "schedule/memory/memory_actions.hpp"

namespace panpipe {
namespace {

bool is_family(const std::string& name) { return find_family(name) != nullptr; }

constexpr const char* kCosts = "costs";

bool is_file_name(const std::string& name) {
  if (is_family(name)) return false;
  struct stat status {};
  return name.find('/') != std::string::npos || name.find('.') != std::string::npos || stat(name.c_str(), &status) == 0;
}

// One number, or one for every stage, separated by '/'.
std::vector<double> parse_cost_list(const std::string& item, const std::string& text, bool each) {
  std::vector<double> values;
  for (const std::string& part : split_text(text, '/')) {
    const auto value = parse_number(part);
    if (!value.value || !(*value.value >= 0) || (!each && part.size() < text.size()))
      throw option_fault(kCosts,
                         fmt::format("KEY=NUMBER with numbers from 0 is wanted, such as F=10,I=12,W=8,comm=1, not '{}'{}", item,
                                     value.problem.find("out of range") == std::string::npos ? "" : "; " + value.problem));
    values.push_back(*value.value);
  }
  return values;
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
  if (text.empty()) return costs;
  std::map<std::string, std::vector<double>> given;
  for (const std::string& item : split_text(text, ',')) {
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string key = item.substr(0, equals);
    const bool each = key == "F" || key == "I" || key == "W";
    const std::vector<double> values = parse_cost_list(item, equals < item.size() ? item.substr(equals + 1) : "", each);
    if (!given.emplace(key, values).second)
      throw option_fault(kCosts, fmt::format("{} is given twice", key), "", code::kRepeated);
    static const std::vector<std::string> kOnes = {"B", "S", "T", "comm", "offload", "reload"};
    if (!each && std::find(kOnes.begin(), kOnes.end(), key) == kOnes.end())
      throw unknown_choice(kCosts, key, {"F", "I", "W", "B", "S", "T", "comm", "offload", "reload"});
  }
  const auto set = [&](const char* key, auto& cost) {
    if (const auto found = given.find(key); found != given.end()) cost = found->second.front();
  };
  set("F", costs.F);
  set("I", costs.I);
  set("W", costs.W);
  set("B", costs.B);
  set("S", costs.S);
  set("T", costs.T);
  set("comm", costs.comm);
  set("offload", costs.offload);
  set("reload", costs.reload);
  std::size_t stages = 1;
  for (const auto& [key, values] : given) stages = std::max(stages, values.size());
  for (const auto& [key, values] : given)
    if (values.size() > 1 && values.size() != stages)
      throw option_fault(kCosts,
                         fmt::format("{} numbers for one pass and {} for another: one for each stage", values.size(), stages));
  const auto of = [&](const char* key, std::size_t stage, double one) {
    const auto found = given.find(key);
    return found != given.end() && found->second.size() > 1 ? found->second[stage] : one;
  };
  for (std::size_t s = 0; stages > 1 && s < stages; ++s)
    costs.stages.push_back({of("F", s, costs.F), of("I", s, costs.I), of("W", s, costs.W)});
  return costs;
}

Schedule obtain_schedule(const ScheduleRequested& asked, const ScheduleOptions& options, const PassCosts& costs) {
  if (!is_file_name(asked.name_or_file)) {
    if (!asked.ranks || !asked.microbatches) {
      if (!is_family(asked.name_or_file)) make_schedule(asked.name_or_file, 1, 1, {});  // reports that it is unknown
      throw InputError(fmt::format("schedule {} needs both sizes: its ranks and its microbatches", asked.name_or_file));
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
