// Schedules for people: a drawing in proportional time, and the grid of steps that marks a fault in an order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text/text_table.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {
namespace {

// A unit of a row as it is drawn.
struct Block {
  double start, end;
  std::string label;   // "4F0", or "4F1+3B0" for a group
  std::string letter;  // when the label does not fit: "F0", else the first character alone
  ActionKind kind;
  bool group;
};

std::vector<Block> blocks_of(const std::vector<Action>& row, const std::vector<std::pair<double, double>>& times) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool share = row[i].is_vocabulary() && times[i].second > times[i].first;
    if (row[i].group_size == 0 || !(row[i].is_compute() || share)) continue;
    Block block{times[i].first, times[i + row[i].group_size - 1].second, to_text(row[i]), "", row[i].kind, row[i].group_size > 1};
    block.letter = std::string(name_of(row[i].kind)) + std::to_string(row[i].microbatch);
    for (std::size_t k = 1; k < row[i].group_size; ++k) block.label += fmt::format("+{}", to_text(row[i + k]));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Background colours of the 256-colour palette: forward blue, input gradient green, weight gradient yellow, backward teal.
const char* colour_of(const Block& block) {
  if (block.group) return "\x1b[48;5;176m\x1b[30m";
  switch (block.kind) {
    case ActionKind::F:
      return "\x1b[48;5;111m\x1b[30m";
    case ActionKind::I:
      return "\x1b[48;5;114m\x1b[30m";
    case ActionKind::W:
      return "\x1b[48;5;221m\x1b[30m";
    case ActionKind::B:
      return "\x1b[48;5;79m\x1b[30m";
    default:
      return "\x1b[48;5;250m\x1b[30m";
  }
}

// Text that ends one column before the block where it can: without that, neighbours run into each other.
std::string text_in(const Block& block, std::size_t width) {
  const std::size_t room = std::max<std::size_t>(1, width - 1);
  std::string text = block.label;
  if (text.size() > room) text = block.letter;
  if (text.size() > room) text = block.letter.substr(0, 1);
  text.resize(width, block.group ? '=' : '-');
  return text;
}

std::string row_text(const std::vector<Block>& blocks, double columns_per_time, std::size_t columns, bool color) {
  std::string text;
  std::size_t at = 0;
  const auto column_of = [&](double time) {
    return std::min(columns, static_cast<std::size_t>(std::llround(time * columns_per_time)));
  };
  const auto idle = [&](std::size_t until) {
    if (until > at) text += std::string(until - at, '.');
    at = std::max(at, until);
  };
  for (const Block& block : blocks) {
    const std::size_t first = std::max(at, column_of(block.start)), end = column_of(block.end);
    idle(first);
    if (end <= first) continue;  // too short to be seen
    if (color) {
      text += colour_of(block) + text_in(block, end - first) + "\x1b[0m";
    } else {
      text += text_in(block, end - first);
    }
    at = end;
  }
  idle(columns);
  return text;
}

// Columns per unit of time: as many as fit. If a pass is at least one column wide, the shortest gets a whole number of columns,
// so that equal passes look equal.
double scale_of(const Schedule& schedule, const ScheduleEvaluation& evaluation, double columns) {
  double shortest = evaluation.makespan;
  for (std::size_t rank = 0; rank < evaluation.times.size(); ++rank)
    for (std::size_t i = 0; i < evaluation.times[rank].size(); ++i) {
      const double length = evaluation.times[rank][i].second - evaluation.times[rank][i].first;
      if (schedule.order[rank][i].is_compute() && length > 0) shortest = std::min(shortest, length);
    }
  const double scale = columns / evaluation.makespan;
  const double wide = std::floor(shortest * scale);
  return wide >= 1 ? wide / shortest : scale;
}

}  // namespace

std::string draw(const Schedule& schedule, const ScheduleEvaluation& evaluation, int width, bool color) {
  const std::size_t name_width = fmt::formatted_size("rank {}", schedule.ranks - 1);
  const std::size_t room = std::max<std::size_t>(20, static_cast<std::size_t>(std::max(width, 0)));
  const std::size_t columns = room > name_width + 11 ? room - name_width - 1 : 10;
  if (evaluation.makespan <= 0) return "";
  const double scale = scale_of(schedule, evaluation, static_cast<double>(columns));
  const auto used = std::min(columns, static_cast<std::size_t>(std::llround(evaluation.makespan * scale)));
  std::string text;
  for (std::size_t rank = 0; rank < schedule.order.size(); ++rank) {
    text += fmt::format("{:<{}} ", fmt::format("rank {}", rank), name_width);
    text += row_text(blocks_of(schedule.order[rank], evaluation.times[rank]), scale, used, color) + "\n";
  }
  return text;
}

std::string grid(const Schedule& schedule, const std::vector<ScheduleProblem>& problems) {
  constexpr std::size_t kAround = 6;  // steps shown before and after the mark
  std::vector<std::vector<std::string>> cells;
  std::size_t steps = 0;
  for (const auto& row : schedule.order) {
    cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].group_size != 0) cells.back().push_back(cell_text(&row[i]));
    steps = std::max(steps, cells.back().size());
  }
  const auto marked =
      std::find_if(problems.begin(), problems.end(), [](const ScheduleProblem& p) { return p.rank >= 0 && p.position >= 0; });
  const bool has_mark = marked != problems.end();
  const std::size_t mark = has_mark ? static_cast<std::size_t>(marked->position) : 0;
  const std::size_t first = mark > kAround ? mark - kAround : 0, end = std::min(steps, mark + kAround + 1);
  std::vector<TextColumn> columns = {"<"};
  for (std::size_t rank = 0; rank < cells.size(); ++rank) columns.push_back(fmt::format("<Rank {}", rank));
  TextTable table(std::move(columns), 0);
  if (first > 0) table.line(fmt::format("... {} steps before", first));
  for (std::size_t step = first; step < end; ++step) {
    std::vector<std::string> line = {fmt::format("Step {}", step)};
    for (const std::vector<std::string>& row : cells) line.push_back(step < row.size() ? row[step] : "");
    if (has_mark && step == mark) line[static_cast<std::size_t>(marked->rank) + 1] += " <-- ERROR HERE";
    table.row(std::move(line));
  }
  if (end < steps) table.line(fmt::format("... {} steps after", steps - end));
  return table.text();
}

}  // namespace panpipe
