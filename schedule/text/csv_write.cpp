// Schedules written as text; csv.cpp describes the format.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "schedule/rolling.hpp"
#include "schedule/schedule.hpp"
#include "schedule/text/csv_shape.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw InputError(fmt::format("PyTorch's CSV cannot express {}", what)); }

void require_torch_can(const Schedule& schedule) {
  if (schedule.splits > 1) refuse(fmt::format("sequence splits ({} of them): its cells name no slice", schedule.splits));
  if (!ways_of_stages(schedule).empty()) refuse("stages that run forwards or backwards alone");
  if (schedule.chains.size() != 1)
    refuse(fmt::format("{} chains, which hold every stage on {} ranks: its stages form one chain, each on one rank",
                       schedule.chains.size(), schedule.chains.size()));
  for (std::size_t i = 0; i < schedule.chains[0].size(); ++i)
    if (schedule.chains[0][i] != static_cast<int>(i)) refuse("a chain whose stages are not numbered in its order");
  if (rolling_of(schedule) == Rolling::Stale) refuse("steps without a flush between them: it would run 1f1b");
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank)
    for (const Action& action : schedule.order[rank])
      if (action.kind == ActionKind::R || action.kind >= ActionKind::Offload)  // the others are PyTorch's
        refuse(fmt::format("{} (rank {})", to_text(action), rank));
}

std::string header(const Schedule& schedule) {
  const ScheduleShape shape = shape_of_rows(schedule.order);
  const auto chains = static_cast<int>(schedule.chains.size());
  std::string text;
  if (shape.stages != schedule.stages || shape.microbatches * chains != schedule.microbatches || shape.splits != schedule.splits)
    text += fmt::format("#pipeline ranks={} microbatches={} stages={} seq_splits={}\r\n", schedule.ranks, schedule.microbatches,
                        schedule.stages, schedule.splits);
  if (schedule.vocabulary_barriers > 1) text += fmt::format("#pipeline vocabulary_barriers={}\r\n", schedule.vocabulary_barriers);
  if (shape.chains != schedule.chains || chains > 1)  // two chains are written, though the reader could derive them
    for (const auto& chain : schedule.chains) text += fmt::format("#chain {}\r\n", fmt::join(chain, ","));
  if (shape.stage_to_rank != schedule.stage_to_rank) text += fmt::format("#place {}\r\n", fmt::join(schedule.stage_to_rank, ","));
  return text;
}

}  // namespace

std::string to_csv(const Schedule& schedule, bool for_torch) {
  if (for_torch) require_torch_can(schedule);
  std::string text = for_torch ? "" : header(schedule);
  // PyTorch takes no idle slots in a file that states its transfers.
  const bool keeps_empty_cells = !schedule.empty_cells.empty() && !(for_torch && has_receives(schedule));
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank) {
    const auto& row = schedule.order[rank];
    const auto* empty = keeps_empty_cells ? &schedule.empty_cells[rank] : nullptr;
    bool first = true;
    const auto add_cell = [&](const std::string& cell) {
      if (!first) text += ',';
      first = false;
      text += cell;
    };
    const auto add_empty = [&](std::size_t before) {
      if (empty != nullptr)
        for (std::int32_t i = 0; i < (*empty)[before]; ++i) add_cell("");
    };
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].group_size == 0) continue;
      add_empty(i);
      std::string cell = cell_text(&row[i]);
      // PyTorch accepts one kind of group, and runs its members in turn, passes of any kind.
      if (for_torch && row[i].group != GroupKind::None)
        cell = cell.substr(0, cell.find(')') + 1) + std::string(name_of(GroupKind::OverlapFB));
      add_cell(cell);
    }
    add_empty(row.size());
    text += "\r\n";
  }
  return text;
}

}  // namespace panpipe
