#include "planner/pfeife/family.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/families/find_family.hpp"

namespace panpipe::planner {
namespace {

// Other families over the same cuts, with one chain of stages and no groups. `stages`: how many a rank holds; 0 = the option
// says.
struct OtherFamily {
  const char* name;
  int stages;
  bool splits;
};
constexpr OtherFamily kOthers[] = {
    {"gpipe", 1, false},      {"zb-h1", 1, true},   {"zb-h2", 1, true}, {"interleaved-1f1b", 0, false},
    {"looped-bfs", 0, false}, {"1f1b-v", 2, false}, {"zb-v", 2, true},  {"interleaved-zero-bubble", 0, true}};

class Builder {
 public:
  Builder(const Scenario& scenario, Family& family) : scenario_(scenario), family_(family) {}

  void add(const std::string& name, const ScheduleOptions& options) {
    try {
      Schedule schedule = make_schedule(name, scenario_.parallel.pipeline, scenario_.microbatches, options);
      family_.members.push_back({name, options, std::move(schedule)});
    } catch (const InputError& error) {
      family_.absent.push_back(fmt::format("{} is unavailable: {}", name, error.what()));
    }
  }

  // As the published planner enumerates them: loop_batch in the ranks and the divisors of the microbatches above.
  void add_pfeife(int stages) {
    const int ranks = scenario_.parallel.pipeline, microbatches = scenario_.microbatches;
    std::vector<std::string> batches = chosen("loop_batch"), ahead = chosen("prefetch");
    if (batches.empty()) {
      if (stages == 1) {
        batches.push_back(std::to_string(microbatches));
      } else if (microbatches >= ranks) {
        batches.push_back(std::to_string(ranks));
        for (int batch = ranks + 1; batch <= microbatches; ++batch)
          if (microbatches % batch == 0) batches.push_back(std::to_string(batch));
      }
    }
    if (ahead.empty())
      for (int prefetch = 0; prefetch < ranks; ++prefetch) ahead.push_back(std::to_string(prefetch));
    for (const std::string& batch : batches)
      for (const std::string& prefetch : ahead)
        add("pfeife", {{"stages_per_rank", std::to_string(stages)}, {"loop_batch", batch}, {"prefetch", prefetch}});
  }

 private:
  std::vector<std::string> chosen(const std::string& option) const {
    const auto found = scenario_.schedule.options.find(option);
    if (found == scenario_.schedule.options.end() || is_open(scenario_, "schedule." + option)) return {};
    return {found->second};
  }

  const Scenario& scenario_;
  Family& family_;
};

bool has_stages_option(const std::string& name) {
  const ScheduleFamily* family = find_family(name);
  return family != nullptr && default_option(*family, "stages_per_rank");
}

}  // namespace

std::string to_text(const Member& member) {
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
  return scenario.schedule.csv.empty() && has_stages_option(scenario.schedule.name);
}

Family family_of(const Scenario& scenario, int stages_per_rank, bool split_backward) {
  Family family;
  Builder builder(scenario, family);
  const ScheduleRequest& request = scenario.schedule;
  if (!is_open(scenario, "schedule")) {
    if (!request.csv.empty()) {
      family.members.push_back({request.csv, {}, load_schedule_csv(request.csv)});
    } else if (request.name == "pfeife" && request.options.count("execution") == 0) {
      builder.add_pfeife(stages_per_rank);
    } else {
      ScheduleOptions options = request.options;
      if (has_stages_option(request.name)) options["stages_per_rank"] = std::to_string(stages_per_rank);
      builder.add(request.name, options);
    }
    return family;
  }
  builder.add_pfeife(stages_per_rank);
  for (const OtherFamily& other : kOthers) {
    if (other.splits && !split_backward) continue;
    if (other.stages == stages_per_rank) builder.add(other.name, {});
    if (other.stages == 0 && stages_per_rank > 1) builder.add(other.name, {{"stages_per_rank", std::to_string(stages_per_rank)}});
  }
  return family;
}

}  // namespace panpipe::planner
