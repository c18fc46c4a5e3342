#include "exec/engine/step_row.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "schedule/rolling.hpp"

namespace panpipe::exec {

StepRow row_of_step(const Schedule& schedule, int position, std::int64_t step, bool from_idle, bool drains) {
  StepRow row;
  const std::vector<Action>& planned = schedule.order[static_cast<std::size_t>(position)];
  row.microbatches = microbatches_of_chain(schedule);
  if (rolling_of(schedule) == Rolling::None) {
    row.order = planned;
    row.in_plan.resize(planned.size());
    std::iota(row.in_plan.begin(), row.in_plan.end(), std::size_t{0});
    return row;
  }
  row.by_parity = true;
  std::map<std::tuple<ActionKind, int, int, int>, std::size_t> index;
  for (std::size_t i = 0; i < planned.size(); ++i)
    index[{planned[i].kind, planned[i].stage, planned[i].microbatch, planned[i].split}] = i;
  for (Action action : step_row(schedule, position, from_idle, drains)) {
    const int of_step = action.microbatch % row.microbatches;
    row.in_plan.push_back(index.at({action.kind, action.stage, of_step, action.split}));
    const std::int64_t parity = (step + action.microbatch / row.microbatches) % 2;
    action.microbatch = static_cast<int>(parity) * row.microbatches + of_step;
    row.order.push_back(action);
  }
  return row;
}

StepRow row_of_evaluation(const Schedule& schedule, int position) {
  StepRow row;
  const std::vector<Action>& planned = schedule.order[static_cast<std::size_t>(position)];
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].kind != ActionKind::F && planned[i].kind != ActionKind::E && planned[i].kind != ActionKind::S) continue;
    row.order.push_back(planned[i]);
    row.order.back().group_size = 1;
    row.in_plan.push_back(i);
  }
  return row;
}

std::vector<std::size_t> forwards_ahead(const Schedule& schedule, const StageLayout& layout) {
  const auto lone_forward = [](const Action& action) { return action.kind == ActionKind::F && action.group_size == 1; };
  std::vector<std::size_t> ahead;
  for (const std::vector<Action>& row : schedule.order)
    ahead.push_back(static_cast<std::size_t>(std::find_if_not(row.begin(), row.end(), lone_forward) - row.begin()));
  const auto is_made = [&](int stage, const Action& reader) {
    const auto position = static_cast<std::size_t>(schedule.stage_to_rank[static_cast<std::size_t>(stage)]);
    const auto begin = schedule.order[position].begin();
    return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(ahead[position]), [&](const Action& action) {
      return action.stage == stage && action.microbatch == reader.microbatch && action.split == reader.split;
    });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t position = 0; position < ahead.size(); ++position)
      for (std::size_t i = 0; i < ahead[position]; ++i) {
        const Action& action = schedule.order[position][i];
        const std::vector<int>& incoming = layout.stages[static_cast<std::size_t>(action.stage)].incoming;
        if (std::all_of(incoming.begin(), incoming.end(),
                        [&](int message) { return is_made(layout.messages[static_cast<std::size_t>(message)].from, action); }))
          continue;
        ahead[position] = i;
        changed = true;
      }
  }
  return ahead;
}

std::int64_t step_of(const StepRow& row, const Action& action, std::int64_t step) {
  const bool next = row.by_parity && action.microbatch / row.microbatches != static_cast<int>(step % 2);
  return step + (next ? 1 : 0);
}

}  // namespace panpipe::exec
