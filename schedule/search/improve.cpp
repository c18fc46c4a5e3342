#include "schedule/search/improve.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/search/rows.hpp"

namespace panpipe::search {
namespace {

// A pass in its row.
struct Place {
  int rank, position;
};

class Improver {
 public:
  Improver(const OrderProblem& problem, const Score& bound, Random& random, const Rows& rows, const Score& score)
      : p_(problem),
        bound_(bound),
        random_(random),
        replay_(problem),
        rows_(rows),
        score_(score),
        best_(rows),
        best_score_(score) {}

  void run(double passes) {
    double each = 0;
    for (const auto& row : rows_) each += static_cast<double>(row.size());
    replay_.run(rows_, score_);
    std::vector<double> history(kHistory, value());
    double current = value();
    for (int turn = 0; turn < kMostTurns && each * turn < passes && bound_.better_than(best_score_); ++turn) {
      if (critical_.empty() || stale_) find_critical();
      if (critical_.empty() || !change()) continue;
      Score score;
      const bool legal = replay_.run(rows_, score);
      const double now = legal ? value_of(score) : 0;
      double& before = history[size(turn % kHistory)];
      if (legal && (now <= current || now <= before)) {
        current = now;
        score_ = score;
        stale_ = true;
        if (score.better_than(best_score_)) {
          best_ = rows_;
          best_score_ = score;
        }
      } else {
        undo();
      }
      before = std::min(before, current);
    }
  }

  const Rows& best() const { return best_; }
  const Score& best_score() const { return best_score_; }

 private:
  static constexpr int kHistory = 64, kFurthest = 12, kMostTurns = 12000;

  double value() const { return value_of(score_); }
  // The ranks' mean end leads over plateaus.
  double value_of(const Score& score) const { return score.makespan + 0.02 * score.span + 0.001 * replay_.mean_end(); }

  int stage(const Place& at) const { return p_.stage_on(at.rank, op(at).chunk); }
  const Op& op(const Place& at) const { return rows_[size(at.rank)][size(at.position)]; }
  double end(const Place& at) const { return replay_.end(op(at).kind, stage(at), op(at).microbatch); }

  // Walks back from the last end of the rank that matters, and notes every pass that waits for nothing but its rank's previous
  // one.
  void find_critical() {
    replay_.run(rows_, score_);
    index();
    critical_.clear();
    stale_ = false;
    const bool by_span = !(bound_.makespan < score_.makespan - Score::kTolerance * score_.makespan) || random_.below(8) == 0;
    const int rank = by_span ? replay_.longest_rank() : replay_.last_rank();
    Place at{rank, static_cast<int>(rows_[size(rank)].size()) - 1};
    const double tiny = 1e-9 * score_.makespan;
    while (at.position >= 0) {
      const double start = end(at) - p_.length(op(at).kind, stage(at));
      const Place input = input_of(at);
      const bool by_input = input.rank >= 0 && std::abs(end(input) + p_.delay(op(at).kind, stage(at)) - start) <= tiny;
      const Place previous{at.rank, at.position - 1};
      const bool by_rank = previous.position >= 0 && std::abs(end(previous) - start) <= tiny;
      if (by_rank) critical_.push_back(at);
      if (by_input && (!by_rank || random_.below(2) == 0)) {
        at = input;
      } else if (by_rank) {
        at = previous;
      } else {
        break;
      }
    }
  }

  void index() {
    position_.resize(3 * size(p_.stages()) * size(p_.microbatches));
    for (int r = 0; r < p_.ranks; ++r)
      for (std::size_t i = 0; i < rows_[size(r)].size(); ++i) {
        const Op& o = rows_[size(r)][i];
        position_[replay_.place(o.kind, p_.stage_on(r, o.chunk), o.microbatch)] = static_cast<int>(i);
      }
  }

  // The pass of another rank that this one needs; rank -1: none.
  Place input_of(const Place& at) const {
    const int other = p_.input_stage(op(at).kind, stage(at));
    if (other < 0) return {-1, 0};
    return {p_.rank_of(other), position_[replay_.place(op(at).kind, other, op(at).microbatch)]};
  }

  // Takes a critical pass to an earlier place, or the one before it to a later place.
  bool change() {
    const Place at = critical_[size(random_.below(static_cast<int>(critical_.size())))];
    auto& row = rows_[size(at.rank)];
    const int far = 1 + (random_.below(2) == 0 ? 0 : random_.below(kFurthest));
    const int last = static_cast<int>(row.size()) - 1;
    if (random_.below(2) == 0) {
      from_ = at.position;
      to_ = std::max(0, at.position - far);
    } else {
      from_ = at.position - 1;
      to_ = std::min(last, from_ + far);
    }
    rank_ = at.rank;
    if (from_ == to_ || !in_sequence(row)) return false;
    move(row, from_, to_);
    if (peak_activations(row) <= p_.memory) return true;
    undo();
    return false;
  }

  // True if the moved pass keeps its place among the passes of its own activation.
  bool in_sequence(const std::vector<Op>& row) const {
    const Op& moved = row[size(from_)];
    for (int i = std::min(from_, to_); i <= std::max(from_, to_); ++i)
      if (i != from_ && row[size(i)].microbatch == moved.microbatch && row[size(i)].chunk == moved.chunk) return false;
    return true;
  }

  static void move(std::vector<Op>& row, int from, int to) {
    if (from < to)
      std::rotate(row.begin() + from, row.begin() + from + 1, row.begin() + to + 1);
    else
      std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
  }
  void undo() { move(rows_[size(rank_)], to_, from_); }

  const OrderProblem& p_;
  const Score& bound_;
  Random& random_;
  RowTimer replay_;
  Rows rows_;
  Score score_;
  Rows best_;
  Score best_score_;
  std::vector<Place> critical_;
  std::vector<int> position_;
  bool stale_ = true;
  int rank_ = 0, from_ = 0, to_ = 0;
};

}  // namespace

void improve(const OrderProblem& problem, const Score& bound, double passes, Random& random, Rows& rows, Score& score) {
  Improver improver(problem, bound, random, rows, score);
  improver.run(passes);
  rows = improver.best();
  score = improver.best_score();
}

}  // namespace panpipe::search
