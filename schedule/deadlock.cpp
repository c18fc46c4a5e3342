#include "schedule/deadlock.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "schedule/cells.hpp"

namespace panpipe {

bool has_receives(const Schedule& schedule) { return find_action(schedule, is_receive) != nullptr; }

std::vector<Way> ways_of_stages(const Schedule& schedule) {
  const auto runs = [&](int stage, ActionKind kind) {
    const auto& row = schedule.order[schedule.stage_to_rank[stage]];
    return std::any_of(row.begin(), row.end(), [&](const Action& a) { return a.stage == stage && a.kind == kind; });
  };
  if (runs(schedule.chains.front().back(), ActionKind::F)) return {};
  std::vector<std::array<bool, 2>> found(static_cast<std::size_t>(schedule.stages));  // forwards, backwards
  for (const auto& row : schedule.order)
    for (const Action& a : row)
      if (a.stage >= 0 && a.stage < schedule.stages && (a.kind == ActionKind::F || a.kind == ActionKind::B))
        found[a.stage][a.kind == ActionKind::F ? 0 : 1] = true;
  std::vector<Way> ways(found.size(), Way::Turn);
  for (const std::vector<int>& chain : schedule.chains) {
    std::size_t turn = 0;
    while (turn < chain.size() && !found[chain[turn]][1]) ++turn;
    if (turn == 0 || turn + 1 >= chain.size() || !found[chain[turn]][0]) return {};  // passes are missing
    for (std::size_t i = 0; i < chain.size(); ++i) {
      if (i == turn) continue;
      ways[chain[i]] = i < turn ? Way::Forth : Way::Back;
      if (i > turn && (found[chain[i]][0] || !found[chain[i]][1])) return {};
    }
  }
  return ways;
}

namespace {

int cell_of_action(const std::vector<Action>& row, std::size_t at) {
  return static_cast<int>(std::count_if(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                        [](const Action& a) { return a.group_size != 0; })) -
         1;
}

class WaitTexts {
 public:
  WaitTexts(const Schedule& schedule, const Reached& reached, const std::function<Action(std::size_t)>& wanted_of)
      : schedule_(schedule), waits_(reached.position.size()) {
    for (std::size_t rank = 0; rank < waits_.size(); ++rank)
      if (const Reached::Wait& wait = reached.waits[rank]; reached.position[rank] < schedule.order[rank].size())
        waits_[rank] = found(schedule.order[rank], wait.at, wanted_of(wait.event));
  }

  std::vector<ScheduleProblem> problems() const {
    std::vector<ScheduleProblem> result;
    const std::vector<std::int32_t> cycle = find_cycle();
    const auto add = [&](std::int32_t rank, std::string message) {
      result.push_back({rank, wait(rank).cell, wait(rank).action, std::move(message)});
    };
    if (!cycle.empty()) add(cycle.front(), "the order cannot finish: " + cycle_text(cycle));
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank)
      if (waits_[rank] && (cycle.empty() || rank != cycle.front())) add(rank, wait_text(wait(rank)));
    return result;
  }

 private:
  struct Wait {
    int cell = 0;
    std::string action, wanted;  // `wanted` is in the row of wanted_rank
    std::int32_t wanted_rank = -1;
    int wanted_cell = -1;  // -1: that row lacks it
  };
  const Wait& wait(std::int32_t rank) const { return *waits_[rank]; }

  Wait found(const std::vector<Action>& own, std::size_t at, const Action& wanted) const {
    Wait wait{cell_of_action(own, at), cell_text(&own[at]), to_text(wanted), schedule_.stage_to_rank[wanted.stage], -1};
    const auto& row = schedule_.order[wait.wanted_rank];
    const auto maker = std::find_if(row.begin(), row.end(), [&](const Action& a) {
      return same_activation(a, wanted) && (a.kind == wanted.kind || (a.kind == ActionKind::I && wanted.kind == ActionKind::B));
    });
    if (maker == row.end()) return wait;
    wait.wanted = to_text(*maker);
    wait.wanted_cell = cell_of_action(row, static_cast<std::size_t>(maker - row.begin()));
    return wait;
  }

  // Ranks, each waiting for the next and the last for the first. Empty only if a rank waits for a product that no rank makes.
  std::vector<std::int32_t> find_cycle() const {
    for (std::int32_t start = 0; start < schedule_.ranks; ++start) {
      std::vector<std::int32_t> cycle = waiting_cycle(waits_[start] ? start : -1, [&](std::int32_t rank) {
        return wait(rank).wanted_cell >= 0 && waits_[wait(rank).wanted_rank] ? wait(rank).wanted_rank : -1;
      });
      if (cycle.empty()) continue;
      std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
      return cycle;
    }
    return {};
  }

  std::string cycle_text(const std::vector<std::int32_t>& cycle) const {
    std::vector<std::string> parts;
    for (const std::int32_t rank : cycle)
      parts.push_back(fmt::format("rank {} waits at {} for {}, cell {} of rank {}", rank, wait(rank).action, wait(rank).wanted,
                                  wait(rank).wanted_cell, wait(rank).wanted_rank));
    return fmt::format("{}: a cycle", fmt::join(parts, "; "));
  }

  std::string wait_text(const Wait& own) const {
    if (own.wanted_cell < 0) return fmt::format("waits for {}, which rank {} never runs", own.wanted, own.wanted_rank);
    const Wait& other = wait(own.wanted_rank);
    if (other.cell == own.wanted_cell)
      return fmt::format("waits for {}, at which rank {} is blocked", own.wanted, own.wanted_rank);
    return fmt::format("waits for {}, cell {} of rank {}, which stands at {}, cell {}", own.wanted, own.wanted_cell,
                       own.wanted_rank, other.action, other.cell);
  }

  const Schedule& schedule_;
  std::vector<std::optional<Wait>> waits_;
};

}  // namespace

std::vector<ScheduleProblem> explain_waits(const Schedule& schedule, const Reached& reached,
                                           const std::function<Action(std::size_t)>& wanted_of) {
  return WaitTexts(schedule, reached, wanted_of).problems();
}

}  // namespace panpipe
