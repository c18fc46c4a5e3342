#include "schedule/deadlock.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "schedule/order_building.hpp"

namespace panpipe {

std::string text_of(ActionKind kind, int stage, int microbatch, int split) {
  return to_text(pass(kind, stage, microbatch, split));
}

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
  WaitTexts(const Schedule& schedule, const std::vector<std::optional<RankWait>>& waits) : schedule_(schedule), waits_(waits) {}

  std::vector<ScheduleProblem> problems() const {
    std::vector<ScheduleProblem> result;
    const std::vector<std::int32_t> cycle = find_cycle();
    const auto add = [&](std::int32_t rank, std::string message) {
      result.push_back({rank, cell(rank), action(rank), std::move(message)});
    };
    if (!cycle.empty()) add(cycle.front(), "the order cannot finish: " + cycle_text(cycle));
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank)
      if (waits_[rank] && (cycle.empty() || rank != cycle.front())) add(rank, wait_text(rank));
    return result;
  }

 private:
  static std::size_t at(std::int32_t rank) { return static_cast<std::size_t>(rank); }
  const std::vector<Action>& row(std::int32_t rank) const { return schedule_.order[rank]; }
  const RankWait& wait(std::int32_t rank) const { return *waits_[rank]; }
  int cell(std::int32_t rank) const { return cell_of_action(row(rank), wait(rank).at); }
  std::string action(std::int32_t rank) const { return cell_text(&row(rank)[wait(rank).at]); }
  int wanted_cell(const RankWait& wait) const { return cell_of_action(row(wait.wanted_rank), *wait.wanted_at); }

  // Ranks, each waiting for the next and the last for the first. Empty only if a rank waits for a product that no rank makes.
  std::vector<std::int32_t> find_cycle() const {
    for (std::int32_t start = 0; start < schedule_.ranks; ++start) {
      std::vector<std::int32_t> cycle = waiting_cycle(waits_[start] ? start : -1, [&](std::int32_t rank) {
        return wait(rank).wanted_at && waits_[wait(rank).wanted_rank] ? wait(rank).wanted_rank : -1;
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
      parts.push_back(fmt::format("rank {} waits at {} for {}, cell {} of rank {}", rank, action(rank), wait(rank).wanted,
                                  wanted_cell(wait(rank)), wait(rank).wanted_rank));
    return fmt::format("{}: a cycle", fmt::join(parts, "; "));
  }

  std::string wait_text(std::int32_t rank) const {
    const RankWait& own = wait(rank);
    if (!own.wanted_at) return fmt::format("waits for {}, which rank {} never runs", own.wanted, own.wanted_rank);
    const int wanted = wanted_cell(own), stands_at = cell(own.wanted_rank);
    if (stands_at == wanted) return fmt::format("waits for {}, at which rank {} is blocked", own.wanted, own.wanted_rank);
    return fmt::format("waits for {}, cell {} of rank {}, which stands at {}, cell {}", own.wanted, wanted, own.wanted_rank,
                       action(own.wanted_rank), stands_at);
  }

  const Schedule& schedule_;
  const std::vector<std::optional<RankWait>>& waits_;
};

// The missing product, and the rank that should make it.
RankWait wait_for(const Schedule& schedule, const Products& products, const Products::Product& p, std::size_t at) {
  static constexpr std::array<ActionKind, Products::kKinds> kMakers = {
      ActionKind::F, ActionKind::B, ActionKind::SendF, ActionKind::SendB, ActionKind::E, ActionKind::S, ActionKind::T};
  RankWait wait{at, text_of(kMakers[p.kind], p.stage, p.microbatch, p.split), schedule.stage_to_rank[p.stage], std::nullopt};
  const std::size_t number = products.number(p.kind, p.stage, p.microbatch, p.split);
  const auto& row = schedule.order[wait.wanted_rank];
  for (std::size_t i = 0; i < row.size() && !wait.wanted_at; ++i)
    if (products.output(row[i]) == number) {
      wait.wanted = to_text(row[i]);
      wait.wanted_at = i;
    }
  return wait;
}

}  // namespace

std::vector<ScheduleProblem> explain_waits(const Schedule& schedule, const std::vector<std::optional<RankWait>>& waits) {
  return WaitTexts(schedule, waits).problems();
}

std::vector<ScheduleProblem> explain_deadlock(const Schedule& schedule, const Products& products,
                                              const std::vector<std::size_t>& reached) {
  const bool receives = has_receives(schedule);
  std::vector<std::uint8_t> made(products.count() + 1, 0);
  for (std::size_t rank = 0; rank < reached.size(); ++rank)
    for (std::size_t i = 0; i < reached[rank]; ++i) made[products.output(schedule.order[rank][i])] = 1;
  std::vector<std::optional<RankWait>> waits(reached.size());
  for (std::size_t rank = 0; rank < reached.size(); ++rank) {
    const auto& row = schedule.order[rank];
    const std::size_t at = reached[rank];
    for (std::size_t i = at; i < row.size() && i < at + row[at].group_size && !waits[rank]; ++i)
      products.for_inputs(row[i], receives, schedule.stage_to_rank, [&](const Products::Product& p) {
        if (!waits[rank] && !made[products.number(p.kind, p.stage, p.microbatch, p.split)])
          waits[rank] = wait_for(schedule, products, p, at);
      });
  }
  return explain_waits(schedule, waits);
}

}  // namespace panpipe
