#include "costmodel/schedule/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace panpipe {

std::string text_of(ActionKind kind, int stage, int microbatch, int split) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.microbatch = microbatch;
  action.split = static_cast<std::int8_t>(split);
  return to_text(action);
}

bool has_receives(const Schedule& schedule) {
  for (const auto& row : schedule.order)
    for (const Action& action : row)
      if (action.kind == ActionKind::RecvF || action.kind == ActionKind::RecvB) return true;
  return false;
}

namespace {

struct Blocked {
  std::size_t at = 0;  // action
  int cell = 0;
  std::string action, wanted;  // texts
  int wanted_rank = -1;        // who makes it
  int wanted_cell = -1;        // -1: nobody does
};

int cell_of_action(const std::vector<Action>& row, std::size_t at) {
  return static_cast<int>(std::count_if(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                        [](const Action& a) { return a.group_size != 0; })) -
         1;
}

class DeadlockReport {
 public:
  DeadlockReport(const Schedule& schedule, const Products& products, const std::vector<std::size_t>& reached)
      : schedule_(schedule), products_(products), receives_(has_receives(schedule)), made_(products.count() + 1, 0) {
    for (std::size_t rank = 0; rank < reached.size(); ++rank)
      for (std::size_t i = 0; i < reached[rank]; ++i) made_[products.output(schedule.order[rank][i])] = 1;
    blocked_.resize(reached.size());
    for (std::size_t rank = 0; rank < reached.size(); ++rank)
      if (reached[rank] < schedule.order[rank].size()) blocked_[rank] = describe(rank, reached[rank]);
  }

  std::vector<ScheduleProblem> problems() const {
    std::vector<ScheduleProblem> result;
    const std::vector<int> cycle = find_cycle();
    const auto add = [&](int rank, std::string message) {
      const auto& b = *blocked_[static_cast<std::size_t>(rank)];
      result.push_back({rank, b.cell, b.action, std::move(message)});
    };
    if (!cycle.empty()) add(cycle.front(), "the order cannot finish: " + cycle_text(cycle));
    for (int rank = 0; rank < schedule_.ranks; ++rank)
      if (blocked_[static_cast<std::size_t>(rank)] && (cycle.empty() || rank != cycle.front())) add(rank, wait_text(rank));
    return result;
  }

 private:
  std::optional<Blocked> describe(std::size_t rank, std::size_t at) const {
    const auto& row = schedule_.order[rank];
    Blocked b{at, cell_of_action(row, at), cell_text(&row[at]), "", -1, -1};
    for (std::size_t i = at; i < at + row[at].group_size && b.wanted.empty(); ++i)
      products_.for_inputs(row[i], receives_, schedule_.stage_to_rank, [&](const Products::Product& p) {
        const std::size_t number = products_.number(p.kind, p.stage, p.microbatch, p.split);
        if (!made_[number] && b.wanted.empty()) find_producer(p, number, b);
      });
    return b;
  }

  void find_producer(const Products::Product& p, std::size_t number, Blocked& b) const {
    static constexpr std::array<ActionKind, Products::kKinds> kMakers = {ActionKind::F, ActionKind::B, ActionKind::SendF,
                                                                         ActionKind::SendB};
    b.wanted = text_of(kMakers[static_cast<std::size_t>(p.kind)], p.stage, p.microbatch, p.split);
    b.wanted_rank = schedule_.stage_to_rank[static_cast<std::size_t>(p.stage)];
    const auto& row = schedule_.order[static_cast<std::size_t>(b.wanted_rank)];
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (products_.output(row[i]) != number) continue;
      b.wanted = to_text(row[i]);
      b.wanted_cell = cell_of_action(row, i);
      return;
    }
  }

  // Ranks, each waiting for the next and the last for the first. Empty only when something is waited for that nobody makes.
  std::vector<int> find_cycle() const {
    for (int start = 0; start < schedule_.ranks; ++start) {
      std::vector<int> path;
      for (int rank = start; rank >= 0 && blocked_[static_cast<std::size_t>(rank)];) {
        if (const auto seen = std::find(path.begin(), path.end(), rank); seen != path.end()) return {seen, path.end()};
        path.push_back(rank);
        const auto& b = *blocked_[static_cast<std::size_t>(rank)];
        rank = b.wanted_cell < 0 ? -1 : b.wanted_rank;
      }
    }
    return {};
  }

  std::string cycle_text(const std::vector<int>& cycle) const {
    std::vector<std::string> parts;
    for (const int rank : cycle) {
      const auto& b = *blocked_[static_cast<std::size_t>(rank)];
      parts.push_back(fmt::format("rank {} waits at {} for {} of rank {}", rank, b.action, b.wanted, b.wanted_rank));
    }
    return fmt::format("{}: a cycle", fmt::join(parts, ", "));
  }

  std::string wait_text(int rank) const {
    const auto& b = *blocked_[static_cast<std::size_t>(rank)];
    if (b.wanted_cell < 0) return fmt::format("waits for {}, which rank {} never runs", b.wanted, b.wanted_rank);
    const int stands_at = blocked_[static_cast<std::size_t>(b.wanted_rank)]->cell;
    if (stands_at == b.wanted_cell) return fmt::format("waits for {}, at which rank {} is blocked", b.wanted, b.wanted_rank);
    return fmt::format("waits for {}, cell {} of rank {}, which stands at cell {}", b.wanted, b.wanted_cell, b.wanted_rank,
                       stands_at);
  }

  const Schedule& schedule_;
  const Products& products_;
  bool receives_;
  std::vector<std::uint8_t> made_;
  std::vector<std::optional<Blocked>> blocked_;
};

}  // namespace

std::vector<ScheduleProblem> explain_deadlock(const Schedule& schedule, const Products& products,
                                              const std::vector<std::size_t>& reached) {
  return DeadlockReport(schedule, products, reached).problems();
}

}  // namespace panpipe
