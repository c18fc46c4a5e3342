// auto-memory: any family within less memory than it takes by itself. Each activation stays, is made again or waits in the host's
// memory, and passes move, as a search finds it shortest. Recompute that fills waits is Mario's idea (Liu et al., PPoPP 2025),
// offload placed by search OptPipe's (2510.05186); both place them by other means.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "schedule/family_text.hpp"
#include "schedule/find_family.hpp"
#include "schedule/memory/fit_memory.hpp"
#include "schedule/memory/memory_actions.hpp"
#include "schedule/order_building.hpp"
#include "schedule/step_bound.hpp"

namespace panpipe {
namespace {

constexpr const char* kName = "auto-memory";

// Of two stages per rank each: the V that is searched within a memory, and the loops that PipeOffload made for offload.
const std::vector<std::string>& usual_bases() {
  static const std::vector<std::string> names = {"zb-v-auto", "group-interleaved", "gis-h"};
  return names;
}

// "auto", "zb-auto", or "interleaved-1f1b:stages_per_rank=4" with options.
std::vector<FamilyText> read_bases(const ScheduleOptions& options) {
  const auto found = options.find("base");
  std::vector<FamilyText> bases;
  if (found == options.end() || found->second == "auto") {
    for (const std::string& name : usual_bases()) bases.push_back({name, {}});
    return bases;
  }
  FamilyText base = read_family_text(found->second, ':');
  if (base.family == kName) throw InputError(fmt::format("the base of {} is another family", kName));
  check_options(base.family, base.options);
  bases.push_back(std::move(base));
  return bases;
}

// "6" for all ranks, or "8,6,6,4" for each.
std::vector<int> limits_of_ranks(int ranks, const ScheduleOptions& options) {
  const auto found = options.find("memory");
  std::vector<int> limits;
  for (const std::string& part : split_text(found == options.end() ? std::to_string(ranks) : found->second, ','))
    limits.push_back(integer_option({{"memory", part}}, "memory", 0, 1));
  if (limits.size() == 1) limits.resize(static_cast<std::size_t>(ranks), static_cast<int>(limits.front()));
  if (static_cast<int>(limits.size()) != ranks)
    throw InputError(fmt::format("option 'memory' of schedule {} lists the limits of {} ranks, but there are {}", kName,
                                 limits.size(), ranks));
  return limits;
}

// A family that takes a limit itself starts from several, since an order that wants little more may need fewer actions.
std::vector<Schedule> orders_of(const FamilyText& base, int ranks, int microbatches, int limit, const PassCosts& costs) {
  if (!has_option(base.family, "memory") || base.options.count("memory") != 0)
    return {make_schedule(base.family, ranks, microbatches, base.options, costs)};
  const int stages = make_schedule(base.family, ranks, 1, base.options, costs).stages / ranks;
  const int most = 2 * ranks * stages, roomy = std::max(limit, ranks * stages);
  const std::set<int> limits = {std::clamp(limit, stages, most), std::clamp(limit * 3 / 2, stages, most), std::min(roomy, most)};
  std::vector<Schedule> result;
  for (const int memory : limits) {
    ScheduleOptions options = base.options;
    options["memory"] = std::to_string(memory);
    result.push_back(make_schedule(base.family, ranks, microbatches, options, costs));
  }
  return result;
}

// The order within the limit, by eviction from itself and from what PipeOffload's rules make of it.
void add_starts(const Schedule& order, const PassCosts& costs, const MemoryLimit& limit, std::vector<FittedOrder>& starts) {
  const auto add = [&](const Schedule& from, const MemoryLimit& within) {
    if (std::optional<FittedOrder> fits = fitted(from, costs, within)) starts.push_back(*std::move(fits));
  };
  add(order, limit);
  if (!limit.offload) return;
  using Choice = OffloadRequest::Choice;
  for (const Choice choice : {Choice::Selective, Choice::Full}) add(add_offload(order, costs, {choice, false, 1}), limit);
  if (!limit.recompute) return;
  MemoryLimit recompute = limit;
  recompute.offload = false;
  add(order, recompute);
}

constexpr std::size_t kImproved = 3;  // starts

Schedule make_auto_memory(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  const std::vector<FamilyText> bases = read_bases(options);
  MemoryLimit limit;
  limit.activations = limits_of_ranks(ranks, options);
  limit.effort = integer_option(options, "effort", 100, 1) / 100.0;
  const std::string ways = word_option(options, "ways", {"recompute", "offload", "both"});
  limit.recompute = ways != "offload";
  limit.offload = ways != "recompute";
  const int most = limit.most();
  std::vector<FittedOrder> starts;
  for (const FamilyText& base : bases) {
    const ScheduleFamily* family = find_family(base.family);
    if (bases.size() > 1 && !family->refused(ranks, microbatches, base.options).empty()) continue;
    for (const Schedule& order : orders_of(base, ranks, microbatches, most, costs)) {
      if (const auto faults = check_schedule(order); !faults.empty())
        throw InputError(fmt::format("the base {} is no legal order: {}", base.family, faults.front().message));
      add_starts(order, costs, limit, starts);
    }
  }
  if (starts.empty())
    throw InputError(fmt::format("{} finds no order whose ranks hold at most {} activation{}{}", kName,
                                 limit.alike() ? std::to_string(most) : fmt::format("{}", fmt::join(limit.activations, ", ")),
                                 most == 1 ? "" : "s",
                                 ways == "offload" ? ": copies need time, and room for what is under way; allow ways=both" : ""));
  const auto shorter = [](const FittedOrder& a, const FittedOrder& b) { return a.evaluation.makespan < b.evaluation.makespan; };
  std::stable_sort(starts.begin(), starts.end(), shorter);
  starts.resize(std::min(kImproved, starts.size()));
  for (FittedOrder& start : starts) start = improved(std::move(start), costs, limit);
  Schedule best = std::move(std::min_element(starts.begin(), starts.end(), shorter)->order);
  best.name = kName;
  best.empty_cells.clear();
  best.notes.clear();
  const StepBound bound = step_bound(best, costs, most, std::pair{limit.recompute, limit.offload});
  best.lower_bound.reset();
  if (bound.by_memory) best.lower_bound = bound.makespan;
  return best;
}

}  // namespace

ScheduleFamily auto_memory_family() {
  return {kName,
          "any family within less memory: recompute and offload of each activation are searched",
          "after Mario (PPoPP 2025) and OptPipe (2510.05186); the search is Panpipe's own",
          {{"base", "auto"}, {"memory", "P"}, {"ways", "recompute"}, {"effort", "100"}},
          make_auto_memory};
}

}  // namespace panpipe
