// The options for recompute and offload, and recompute itself; offload.cpp plans offloads.
#include "schedule/memory/memory_actions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "schedule/cells.hpp"
#include "schedule/goes_together.hpp"
#include "schedule/order_building.hpp"
#include "schedule/rolling.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

void refuse_memory_actions(const Schedule& schedule) {
  if (const Action* own = find_action(schedule, [](ActionKind k) { return k == ActionKind::R || k == ActionKind::Offload; }))
    throw InputError(fmt::format("the order has memory actions of its own ({})", to_text(*own)));
}

// The first `count` stages of each rank in forward order.
std::set<int> early_stages(const Schedule& schedule, int count) {
  std::vector<int> taken(schedule.ranks, 0);
  std::set<int> stages;
  std::size_t longest = 0;
  for (const auto& chain : schedule.chains) longest = std::max(longest, chain.size());
  for (std::size_t position = 0; position < longest; ++position)
    for (const auto& chain : schedule.chains) {
      if (position >= chain.size()) continue;
      const int rank = schedule.stage_to_rank[chain[position]];
      if (taken[rank]++ < count) stages.insert(chain[position]);
    }
  return stages;
}

Row with_recomputes(const Row& row, const std::set<int>& stages) {
  Row result;
  for (std::size_t i = 0; i < row.size();) {
    const std::size_t end = i + row[i].cell_size();
    for (std::size_t member = i; member < end; ++member)
      if (starts_backward(row[member].kind) && stages.count(row[member].stage) != 0)
        result.push_back(with_kind(row[member], ActionKind::R));
    for (; i < end; ++i) result.push_back(row[i]);
  }
  return result;
}

// Where a backward waits for nothing but its R, and the rank waited before the cell ahead of R for as long as R takes, the two
// change places.
Row with_earlier_recomputes(const Row& row, const CellTimes& times, double cost) {
  const std::vector<Cell> cells = cells_of(row, times);
  std::vector<Cell> order = cells;
  for (std::size_t k = 1; k + 1 < cells.size(); ++k) {
    const Cell &ahead = cells[k - 1], &own = cells[k], &backward = cells[k + 1];
    if (row[own.first].kind != ActionKind::R || !row[ahead.first].is_compute()) continue;
    const double before = k >= 2 ? cells[k - 2].over : 0;
    if (backward.start > own.over || ahead.start - before < cost) continue;
    const Action& recompute = row[own.first];
    bool bound = false;
    for (std::size_t i = ahead.first; i < ahead.end; ++i)
      bound |= row[i].kind == ActionKind::R || same_activation(row[i], recompute);
    if (!bound) std::swap(order[k - 1], order[k]);
  }
  Row result;
  for (const Cell& cell : order)
    result.insert(result.end(), row.begin() + static_cast<std::ptrdiff_t>(cell.first),
                  row.begin() + static_cast<std::ptrdiff_t>(cell.end));
  return result;
}

// --- options ---

struct RecomputeChoice {
  bool any = false;
  int stages = 0;  // the first of each rank; 0 = all
};

RecomputeChoice recompute_choice(const ScheduleOptions& options) {
  const auto found = options.find("recompute");
  if (found == options.end() || found->second == "none") return {};
  if (found->second == "full") return {true, 0};
  try {
    return {true, integer_option(options, "recompute", 0, 1)};
  } catch (const InputError&) {  // besides numbers there are words
    throw InputError(
        fmt::format("option 'recompute' of a schedule must be none, full, or how many of each rank's stages are "
                    "recomputed, not '{}'",
                    found->second));
  }
}

}  // namespace

const std::vector<std::pair<std::string_view, std::string_view>>& memory_options() {
  static const std::vector<std::pair<std::string_view, std::string_view>> options = {{"recompute", "none"},
                                                                                     {"offload", "none"},
                                                                                     {"offload_waiting", "false"},
                                                                                     {"offload_stagger", "1"},
                                                                                     {"post_validation", "false"}};
  return options;
}

int offload_stagger(const ScheduleOptions& options) { return integer_option(options, "offload_stagger", 1, 1); }

namespace {

void check_option(const Schedule& schedule, Feature option) {
  Features features = features_of(schedule);
  features.add(option);
  features.add(Feature::NoFlush, option == Feature::PostValidation);
  if (const Conflict* conflict = conflict_of(features, Where::Predicted)) throw refusal_of(*conflict);
}

Schedule with_memory_actions(Schedule schedule, const ScheduleOptions& options, const PassCosts& costs) {
  const RecomputeChoice recompute = recompute_choice(options);
  const std::string offload = word_option(options, "offload", {"none", "selective", "full"});
  const bool waiting = boolean_option(options, "offload_waiting", false);
  const int stagger = offload_stagger(options);
  if (offload == "none" && (waiting || stagger > 1))
    throw InputError("options 'offload_waiting' and 'offload_stagger' need offload=selective or offload=full");
  if (!recompute.any && offload == "none") return schedule;
  check_option(schedule, Feature::MemoryOptions);
  if (!check_schedule(schedule).empty()) return schedule;  // the caller's own check reports what is wrong
  if (recompute.any) schedule = add_recompute(schedule, costs, recompute.stages);
  if (offload == "none") return schedule;
  using Choice = OffloadRequest::Choice;
  return add_offload(schedule, costs, {offload == "full" ? Choice::Full : Choice::Selective, waiting, stagger});
}

}  // namespace

Schedule apply_memory_options(Schedule schedule, const ScheduleOptions& options, const PassCosts& costs) {
  const bool validated = boolean_option(options, "post_validation", false);
  schedule = with_memory_actions(std::move(schedule), options, costs);
  if (!validated) return schedule;
  check_option(schedule, Feature::PostValidation);
  for (Row& row : schedule.order)
    if (row.empty() || row.back().kind != ActionKind::Opt) row.push_back({.kind = ActionKind::Opt});
  schedule.empty_cells.clear();
  return schedule;
}

Schedule add_recompute(const Schedule& schedule, const PassCosts& costs, int stages) {
  refuse_memory_actions(schedule);
  const std::set<int> chosen = early_stages(schedule, stages > 0 ? stages : schedule.stages);
  Schedule plain = schedule;
  plain.empty_cells.clear();
  for (Row& row : plain.order) row = with_recomputes(row, chosen);
  const ScheduleEvaluation evaluation = evaluate(plain, costs);
  Schedule early = plain;
  for (std::size_t rank = 0; rank < plain.order.size(); ++rank)
    early.order[rank] = with_earlier_recomputes(plain.order[rank], evaluation.times[rank], costs.F);
  if (early.order == plain.order || evaluate(early, costs).makespan >= evaluation.makespan) return plain;
  return early;
}

}  // namespace panpipe
