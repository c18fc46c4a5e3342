// Checks whether an order is executable. Each row is scanned once (ranges, exactly once, dependencies within a rank). If that
// succeeds, all rows are run together to check that they finish.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/index.hpp"
#include "schedule/communication.hpp"
#include "schedule/deadlock.hpp"
#include "schedule/goes_together.hpp"
#include "schedule/memory/parking.hpp"
#include "schedule/order_building.hpp"
#include "schedule/schedule.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kMaxProblems = 20;  // as compilers do

// What comes before an action in its row.
struct Need {
  ActionKind kind{}, needs{};
  const char* why = nullptr;
};
constexpr std::array<Need, kActionKinds> kNeeds = [] {
  constexpr Need kRows[] = {
      {ActionKind::B, ActionKind::F, "its forward"},
      {ActionKind::I, ActionKind::F, "its forward"},
      {ActionKind::W, ActionKind::I, "whose input gradient it starts from"},
      {ActionKind::R, ActionKind::F, "which it repeats"},
      {ActionKind::SendF, ActionKind::F, "whose result it sends"},
      {ActionKind::SendB, ActionKind::I, "whose result it sends"},  // or B
      {ActionKind::Offload, ActionKind::F, "whose activations it moves"},
      {ActionKind::Reload, ActionKind::Offload, "which it undoes"},
      {ActionKind::T, ActionKind::S, "whose logits it reads"},
      {ActionKind::G, ActionKind::E, "whose rows it adds gradients to"},
  };
  std::array<Need, kActionKinds> needs{};
  for (const Need& row : kRows) needs[at(row.kind)] = row;
  return needs;
}();

std::string text_at(ActionKind kind, int stage, int microbatch, int split) {
  return to_text(pass(kind, stage, microbatch, split));
}

class RowChecker {
 public:
  RowChecker(const Schedule& schedule, const Products& products)
      : schedule_(schedule), products_(products), receives_(has_receives(schedule)) {
    weights_done_.assign(schedule.stages, 0);
    weights_of_rank_.assign(schedule.ranks, 0);
    stages_of_rank_.assign(schedule.ranks, 0);
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (products.runs_backward(stage)) ++stages_of_rank_[schedule.stage_to_rank[stage]];
  }

  std::vector<ScheduleProblem> run() {
    for (rank_ = 0; rank_ < schedule_.ranks; ++rank_) {
      const auto& row = schedule_.order[rank_];
      position_ = -1;
      for (const Action& action : row) {
        if (action.group_size != 0) ++position_;
        action_ = &action;
        if (std::string fault = place_fault(); !fault.empty()) {
          report(std::move(fault));
          continue;
        }
        check_order();
        if (action.group != GroupKind::None) check_group_member(row);
        note();
      }
    }
    check_complete();
    return std::move(problems_);
  }

 private:
  using Table = std::vector<std::int32_t>;

  void report(int rank, int position, std::string action, std::string message) {
    if (problems_.size() < kMaxProblems) problems_.push_back({rank, position, std::move(action), std::move(message)});
  }
  void report(std::string message) { report(rank_, position_, to_text(*action_), std::move(message)); }

  static bool is_on_microbatch(ActionKind kind) { return kind <= ActionKind::RecvB || is_copy(kind) || kind >= ActionKind::E; }

  // Cell of an action that stood earlier, -1 when there was none.
  int cell_of(ActionKind kind, std::size_t place) const {
    const Table& table = cell_[at(kind)];
    return table.empty() ? -1 : table[place];
  }
  int cell_of(ActionKind kind) const { return cell_of(kind, place_); }
  // Of the stage and microbatch of the checked action.
  std::string text_of(ActionKind kind, int split) const { return text_at(kind, action_->stage, action_->microbatch, split); }
  std::string text_of(ActionKind kind) const { return text_of(kind, action_->split); }
  bool came_before(ActionKind kind) const {
    const int cell = cell_of(kind);
    return cell >= 0 && cell < position_;  // members of one group run together: none waits for another
  }

  // Of numbers out of range, or of an action that stood before.
  std::string place_fault() {
    const Action& a = *action_;
    if (a.kind == ActionKind::Opt || a.kind == ActionKind::Sync) return {};
    if (a.stage < 0 || a.stage >= schedule_.stages)
      return fmt::format("stage {} does not exist: there are {}, numbered from 0", a.stage, schedule_.stages);
    if (const int home = schedule_.stage_to_rank[a.stage]; home != rank_)
      return fmt::format("stage {} lives on rank {}", a.stage, home);
    if (!is_on_microbatch(a.kind)) return {};
    if (a.is_vocabulary() && a.stage != rank_)
      return fmt::format("is named after the first stage of its rank: {}", text_at(a.kind, rank_, a.microbatch, a.split));
    if (a.microbatch < 0 || a.microbatch >= products_.microbatches())
      return fmt::format("microbatch {} does not exist: there are {}, numbered from 0", a.microbatch, products_.microbatches());
    if (schedule_.splits > 1 && (a.split < 0 || a.split >= schedule_.splits))
      return fmt::format("must name one of the {} sequence splits, numbered from 0", schedule_.splits);
    if (schedule_.splits <= 1 && a.split >= 0) return "names a sequence split, but the schedule has none";
    Table& table = cell_[at(a.kind)];
    if (table.empty()) table.assign(products_.places(), -1);
    place_ = products_.place(a.stage, a.microbatch, a.split);
    const int cell = table[place_];
    if (cell >= 0 && !parks_again(cell)) return fmt::format("occurs twice; the first is in cell {}", cell);
    return {};
  }

  // Tensors that were parked before I may be parked again after it, until W.
  bool parks_again(int cell) const {
    if (action_->kind == ActionKind::Offload) return cell_of(ActionKind::I) > cell;
    return action_->kind == ActionKind::Reload && cell_of(ActionKind::Offload) > cell;
  }

  void note() {
    const Action& a = *action_;
    if (is_on_microbatch(a.kind)) cell_[at(a.kind)][place_] = position_;
    if (a.kind == ActionKind::B || a.kind == ActionKind::W) {
      ++weights_done_[a.stage];
      ++weights_of_rank_[rank_];
    }
  }

  void require(ActionKind kind, const char* why) {
    if (came_before(kind)) return;
    const std::string wanted = text_of(kind);
    if (cell_of(kind) >= 0) return report(fmt::format("is in one group with {}, {}", wanted, why));
    report(fmt::format("comes before {}, {}", wanted, why));
  }

  void require_receive(ActionKind kind, int from) {
    if (!receives_ || from < 0 || schedule_.stage_to_rank[from] == rank_) return;
    require(kind, "which brings its input");
  }

  void check_order() {
    const Action& a = *action_;
    if (is_send(a.kind) || is_receive(a.kind)) check_peer();
    if (starts_backward(a.kind)) {
      const ActionKind other = a.kind == ActionKind::B ? ActionKind::I : ActionKind::B;
      if (cell_of(other) >= 0)
        return report(fmt::format("repeats the backward: {} is in cell {}", text_of(other), cell_of(other)));
    }
    if (a.kind == ActionKind::W && cell_of(ActionKind::B) >= 0)
      return report("repeats part of the full backward B of the same microbatch");
    if (const Need& need = kNeeds[at(a.kind)]; need.why != nullptr) {
      // Another stage runs the forward of one that runs backwards alone.
      const bool elsewhere = uses_parked(a.kind) && need.needs == ActionKind::F && !products_.runs_forward(a.stage);
      if (!elsewhere && !(a.kind == ActionKind::SendB && came_before(ActionKind::B))) require(need.needs, need.why);
    }
    if (a.kind == ActionKind::F) require_receive(ActionKind::RecvF, products_.previous(a.stage));
    if (starts_backward(a.kind)) require_receive(ActionKind::RecvB, products_.gradient_from(a.stage));
    if (a.kind == ActionKind::R && (cell_of(ActionKind::I) >= 0 || cell_of(ActionKind::B) >= 0))
      report("comes after the backward it is for");
    for (const ActionKind last : {ActionKind::B, ActionKind::W})
      if (a.kind == ActionKind::Offload && cell_of(last) >= 0)
        report(fmt::format("comes after {}, which has freed its activations", text_of(last)));
    if (uses_parked(a.kind) && cell_of(ActionKind::Offload) >= 0 && cell_of(ActionKind::Reload) < cell_of(ActionKind::Offload))
      report(fmt::format("comes before {}, which brings its activations back", text_of(ActionKind::Reload)));
    check_slices();
    if (a.kind == ActionKind::ReduceGrad && weights_done_[a.stage] < weight_passes())
      report(fmt::format("comes before the last weight gradient of stage {}", a.stage));
    if (a.kind == ActionKind::Opt && weights_of_rank_[rank_] < weight_passes() * stages_of_rank_[rank_])
      report("comes before the last weight gradient of the rank");
  }

  // The stage at the other end of a send or a receive is there, and on another rank.
  void check_peer() {
    const Action& a = *action_;
    const int peer = other_end(products_, a);
    if (peer < 0) {
      const bool last = a.kind == ActionKind::SendF || a.kind == ActionKind::RecvB;
      report(fmt::format("has no {}: stage {} is the {} of its chain", is_send(a.kind) ? "receiver" : "sender", a.stage,
                         last ? "last" : "first"));
    } else if (is_send(a.kind) && schedule_.stage_to_rank[peer] == rank_) {
      report(fmt::format("has no receiver: stage {} is on the same rank", peer));
    }
  }

  // Slices run forwards in their order, and backwards against it.
  void check_slices() {
    const Action& a = *action_;
    const auto lacks = [&](ActionKind kind, int split) {
      return cell_of(kind, products_.place(a.stage, a.microbatch, split)) < 0;
    };
    if (a.kind == ActionKind::F && a.split > 0 && lacks(ActionKind::F, a.split - 1))
      report(fmt::format("comes before {}, whose keys and values it attends to", text_of(ActionKind::F, a.split - 1)));
    if (starts_backward(a.kind) && a.split >= 0 && a.split + 1 < schedule_.splits && lacks(ActionKind::B, a.split + 1) &&
        lacks(ActionKind::I, a.split + 1))
      report(fmt::format("comes before {}, whose gradients of keys and values it needs", text_of(a.kind, a.split + 1)));
  }

  // Members of a group run at the same time, so none may need another's product. check_order has checked F, B and I of one stage
  // and slice. PyTorch spells every group OVERLAP_F_B, so that name does not restrict the members.
  void check_group_member(const std::vector<Action>& row) {
    const Action& a = *action_;
    const bool belongs = a.group == GroupKind::OverlapFW   ? a.kind == ActionKind::F || a.kind == ActionKind::W
                         : a.group == GroupKind::OverlapFF ? a.kind == ActionKind::F
                                                           : true;
    if (!belongs)
      report(fmt::format("does not belong into {}, which runs {}", name_of(a.group),
                         a.group == GroupKind::OverlapFF ? "forwards only" : "forwards with weight gradients"));
    const Action* first = action_;
    while (first != row.data() && first->group_size == 0) --first;
    for (const Action* other = first; other < first + first->group_size; ++other)
      products_.for_inputs(a, false, schedule_.stage_to_rank, [&](const Products::Product& input) {
        const bool own = input.stage == a.stage && input.split == a.split;
        if (!own && other != action_ && can_make(*other) &&
            products_.output(*other) == products_.number(input.kind, input.stage, input.microbatch, input.split))
          report(fmt::format("is in one group with {}, whose result it needs", to_text(*other)));
      });
  }

  // True if its product can be numbered. Later members of the row are not checked yet.
  bool can_make(const Action& a) const {
    return a.is_compute() && a.stage >= 0 && a.stage < schedule_.stages && a.microbatch >= 0 &&
           a.microbatch < products_.microbatches() && a.split < schedule_.splits;
  }

  int weight_passes() const { return products_.microbatches() * schedule_.splits; }

  void check_complete() {
    for (int stage = 0; stage < schedule_.stages; ++stage)
      for (int m = 0; m < products_.microbatches(); ++m)
        for (int k = 0; k < schedule_.splits; ++k) check_place(stage, m, schedule_.splits > 1 ? k : -1);
    for (int rank = 0; rank < schedule_.ranks && schedule_.vocabulary_barriers > 0; ++rank)
      for (int m = 0; m < products_.microbatches(); ++m)
        for (const ActionKind kind : {ActionKind::E, ActionKind::S, ActionKind::T, ActionKind::G})
          if (cell_of(kind, products_.place(rank, m, -1)) < 0)
            report(rank, -1, text_at(kind, rank, m, -1), "is missing: every rank runs E, S, T and G of a vocabulary that is cut");
  }

  void check_place(int stage, int m, int split) {
    const std::size_t place = products_.place(stage, m, split);
    const auto has = [&](ActionKind kind) { return cell_of(kind, place) >= 0; };
    const auto missing = [&](ActionKind kind, const char* what) {
      report(schedule_.stage_to_rank[stage], -1, text_at(kind, stage, m, split), what);
    };
    if (!has(ActionKind::F) && products_.runs_forward(stage))
      missing(ActionKind::F, "is missing: every stage runs every microbatch once");
    if (!has(ActionKind::B) && !has(ActionKind::I) && products_.runs_backward(stage))
      missing(ActionKind::B, "is missing (as B, or as I and W)");
    if (has(ActionKind::I) && !has(ActionKind::W)) missing(ActionKind::W, "is missing: its input gradient I runs");
    if (!receives_) return;
    for (const auto& [send, receive] :
         {std::pair(ActionKind::SendF, ActionKind::RecvF), std::pair(ActionKind::SendB, ActionKind::RecvB)})
      if (const int peer = other_end(products_, {.kind = send, .stage = stage});
          has(send) && peer >= 0 && cell_of(receive, products_.place(peer, m, split)) < 0)
        missing(send, "is never received");
  }

  const Schedule& schedule_;
  const Products& products_;
  bool receives_;
  int rank_ = 0, position_ = -1;
  const Action* action_ = nullptr;
  std::size_t place_ = 0;                 // of the action, if it is on a microbatch
  std::array<Table, kActionKinds> cell_;  // per kind: cell of each place, -1 = not yet; empty until the kind appears
  std::vector<int> weights_done_, weights_of_rank_, stages_of_rank_;
  std::vector<ScheduleProblem> problems_;
};

// Checks the numbers that other checks use as indices. A schedule that fails here was built wrongly by hand.
std::string shape_fault(const Schedule& s) {
  const auto stages = static_cast<std::size_t>(std::max(s.stages, 0));
  if (s.ranks < 1 || s.microbatches < 1 || s.stages < 1 || s.splits < 1)
    return "ranks, stages, microbatches and splits must be positive";
  if (s.order.size() != static_cast<std::size_t>(s.ranks)) return fmt::format("{} ranks but {} rows", s.ranks, s.order.size());
  if (s.stage_to_rank.size() != stages) return fmt::format("{} stages but {} places", stages, s.stage_to_rank.size());
  for (const int rank : s.stage_to_rank)
    if (rank < 0 || rank >= s.ranks) return fmt::format("a stage is placed on rank {} of {}", rank, s.ranks);
  std::vector<int> times(stages, 0);
  for (const auto& chain : s.chains)
    for (const int stage : chain) {
      if (stage < 0 || stage >= s.stages) return fmt::format("a chain names stage {} of {}", stage, s.stages);
      ++times[stage];
    }
  for (std::size_t stage = 0; stage < stages; ++stage)
    if (times[stage] != 1) return fmt::format("stage {} is in {} chains, not in one", stage, times[stage]);
  const bool cut = find_action(s, [](ActionKind kind) { return kind >= ActionKind::E; }) != nullptr;
  if (cut != (s.vocabulary_barriers > 0))
    return cut ? "passes E, S, T, G need the number of their barriers" : "barriers of a vocabulary that no pass cuts";
  if (cut && (s.vocabulary_barriers > 2 || s.stages < s.ranks))
    return "a vocabulary is cut with 1 or 2 barriers, over ranks with stages";
  for (int rank = 0; cut && rank < s.ranks; ++rank)
    if (s.stage_to_rank[static_cast<std::size_t>(rank)] != rank)
      return fmt::format("a vocabulary is cut over ranks whose first stages have their numbers: stage {} is on rank {}", rank,
                         s.stage_to_rank[static_cast<std::size_t>(rank)]);
  if (s.microbatches % static_cast<int>(s.chains.size()) != 0)
    return fmt::format("{} microbatches do not divide over {} chains", s.microbatches, s.chains.size());
  const Conflict* conflict = conflict_of(features_of(s), Where::Predicted);
  return conflict != nullptr ? text_of(*conflict) : "";
}

}  // namespace

std::vector<ScheduleProblem> check_schedule(const Schedule& schedule) {
  if (std::string fault = shape_fault(schedule); !fault.empty()) return {{-1, -1, "", std::move(fault)}};
  const Products products(schedule);
  std::vector<ScheduleProblem> problems = RowChecker(schedule, products).run();
  if (!problems.empty()) return problems;
  const Reached reached = walk(schedule, products, has_receives(schedule), false, [](std::int32_t, std::size_t, std::size_t) {});
  return explain_waits(schedule, reached, [&](std::size_t event) { return products.maker(event); });
}

}  // namespace panpipe
