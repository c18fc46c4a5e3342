#include "schedule/search/list_scheduler.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace panpipe::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Rank {
  double free_at = 0, first_start = -1;
  double wanted[6] = {}, length[6] = {};  // of its microbatch 0, and what a pass takes; per kind + 3 chunk
  int limit[2] = {};                      // as in Policy
  int next[6] = {};                       // microbatch that comes next, per kind + 3 chunk
  int held[2] = {};                       // activations, per chunk
  std::vector<Op> weights;                // weight gradients in the order of their input gradients
  std::size_t weights_done = 0;           // how many of them ran
  std::vector<double> arrival[4];         // inputs of F and I of each chunk: kind + 2 chunk, per microbatch
};

class Scheduler {
 public:
  Scheduler(const OrderProblem& problem, const Policy& policy)
      : p_(problem), policy_(policy), rows_(size(p_.ranks)), ranks_(size(p_.ranks)) {
    for (int r = 0; r < p_.ranks; ++r) {
      Rank& rank = ranks_[size(r)];
      std::copy_n(policy.wanted[size(r)].begin(), 3 * p_.chunks, rank.wanted);
      std::copy_n(policy.limit[size(r)].begin(), p_.chunks, rank.limit);
      for (int chunk = 0; chunk < p_.chunks; ++chunk)
        for (const Kind kind : {Kind::F, Kind::I, Kind::W})
          rank.length[static_cast<int>(kind) + 3 * chunk] = p_.length(kind, p_.stage_on(r, chunk));
      for (int k = 0; k < 2 * p_.chunks; ++k) rank.arrival[k].assign(size(p_.microbatches), kNever);
      rows_[size(r)].reserve(size(3 * p_.chunks * p_.microbatches));
      rank.weights.reserve(size(p_.chunks * p_.microbatches));
    }
    std::fill(ranks_[0].arrival[0].begin(), ranks_[0].arrival[0].end(), 0.0);
  }

  Rows run(Score& score) {
    wake_.assign(size(p_.ranks), kNever);
    wake(0, 0);
    while (true) {
      std::size_t first = 0;
      for (std::size_t r = 1; r < wake_.size(); ++r)
        if (wake_[r] <= wake_[first]) first = r;  // of equals the last: its gradients are waited for
      const double now = wake_[first];
      if (now == kNever) break;
      wake_[first] = kNever;
      decide(static_cast<int>(first), now);
    }
    score = {};
    for (int r = 0; r < p_.ranks; ++r) {
      const Rank& rank = ranks_[size(r)];
      if (rows_[size(r)].size() != size(3 * p_.chunks * p_.microbatches)) {
        PANPIPE_CHECK(policy_.lead < Policy::kUnlimited || policy_.lead_at_first < Policy::kUnlimited, "passes were left undone");
        return {};
      }
      score.makespan = std::max(score.makespan, rank.free_at);
      score.span = std::max(score.span, rank.free_at - rank.first_start);
    }
    return std::move(rows_);
  }

 private:
  struct Choice {
    int op = -1;  // kind + 3 chunk
    double wanted = kNever, at = kNever;
  };

  // A rank decides again at this time, or when it is free, if it does not decide sooner.
  void wake(int rank, double time) {
    wake_[size(rank)] = std::min(wake_[size(rank)], std::max(time, ranks_[size(rank)].free_at));
  }

  double wanted(int r, int op, int microbatch) const { return ranks_[size(r)].wanted[op] + microbatch * policy_.period; }

  bool room(int r, int chunk) const {
    const Rank& rank = ranks_[size(r)];
    if (rank.held[0] + rank.held[1] >= p_.memory) return false;
    if (p_.chunks == 1) return rank.held[0] < rank.limit[0];
    return rank.held[chunk] < rank.limit[chunk] && (chunk == 1 || rank.held[0] < p_.memory - 1);
  }

  // Forwards that are wanted later than this have to wait.
  double latest_forward(int r) const {
    const Rank& rank = ranks_[size(r)];
    const double lead = rank.weights.empty() ? policy_.lead_at_first : policy_.lead;
    if (lead >= Policy::kUnlimited) return kNever;
    double earliest = kNever;
    for (int chunk = 0; chunk < p_.chunks; ++chunk)
      for (int kind = 0; kind < 2; ++kind)
        if (const int next = rank.next[kind + 3 * chunk]; next < p_.microbatches)
          earliest = std::min(earliest, wanted(r, kind + 3 * chunk, next));
    return earliest + lead;
  }

  void decide(int r, double now) {
    Rank& rank = ranks_[size(r)];
    Choice ready, coming;
    bool blocked = false;  // something waits for memory alone
    const double latest = latest_forward(r);
    for (int chunk = 0; chunk < p_.chunks; ++chunk)
      for (int kind = 0; kind < 2; ++kind) {
        const int op = kind + 3 * chunk, microbatch = rank.next[op];
        if (microbatch >= p_.microbatches) continue;
        const double at = rank.arrival[kind + 2 * chunk][size(microbatch)];
        if (at == kNever) continue;
        if (kind == 0 && !room(r, chunk)) {
          blocked |= at <= now;
          continue;
        }
        const double key = wanted(r, op, microbatch);
        if (kind == 0 && key > latest) continue;
        if (at <= now && key < ready.wanted) ready = {op, key, at};
        if (at > now && key < coming.wanted) coming = {op, key, at};
        if (at > now && at < next_arrival_) next_arrival_ = at;
      }
    const double gap = next_arrival_ - now, first_coming = next_arrival_;
    next_arrival_ = kNever;
    const bool has_weight = rank.weights_done < rank.weights.size();
    const double weight = has_weight ? weight_length(r) : 0;
    const double weight_key =
        has_weight ? wanted(r, 2 + 3 * rank.weights[rank.weights_done].chunk, rank.weights[rank.weights_done].microbatch)
                   : kNever;
    if (ready.op >= 0) {
      const bool wait = coming.op >= 0 && coming.wanted < ready.wanted && coming.at - now <= policy_.patience;
      if (has_weight &&
          ((policy_.weights_by_time && weight_key < ready.wanted) || (wait && policy_.fit * weight <= coming.at - now)))
        return start_weight(r, now);
      if (!wait) return start(r, ready.op, now);
      return wake(r, coming.at);
    }
    if (has_weight && (blocked || gap >= policy_.fit * weight || (policy_.weights_by_time && weight_key < coming.wanted)))
      return start_weight(r, now);
    if (first_coming < kNever) wake(r, first_coming);
  }

  void begin(int r, double now, double length, Op op) {
    Rank& rank = ranks_[size(r)];
    if (rank.first_start < 0) rank.first_start = now;
    rank.free_at = now + length;
    rows_[size(r)].push_back(op);
    wake_[size(r)] = rank.free_at;
  }

  // Duration of the oldest pending weight gradient.
  double weight_length(int r) const {
    const Rank& rank = ranks_[size(r)];
    return rank.length[static_cast<int>(Kind::W) + 3 * rank.weights[rank.weights_done].chunk];
  }

  void start_weight(int r, double now) {
    Rank& rank = ranks_[size(r)];
    const double length = weight_length(r);
    const Op op = rank.weights[rank.weights_done++];
    --rank.held[op.chunk];  // nothing else runs here before it ends
    begin(r, now, length, op);
  }

  void start(int r, int op, double now) {
    Rank& rank = ranks_[size(r)];
    const int chunk = op / 3, microbatch = rank.next[op]++, stage = p_.stage_on(r, chunk);
    const bool forward = op % 3 == 0;
    const Kind kind = forward ? Kind::F : Kind::I;
    begin(r, now, rank.length[op], {kind, static_cast<std::uint8_t>(chunk), microbatch});
    const double end = rank.free_at;
    if (forward) {
      ++rank.held[chunk];
      if (stage + 1 < p_.stages()) return arrive(stage + 1, 0, microbatch, end + p_.hop(stage));
      return arrive(stage, 1, microbatch, end);
    }
    rank.weights.push_back({Kind::W, static_cast<std::uint8_t>(chunk), microbatch});
    if (stage > 0) arrive(stage - 1, 1, microbatch, end + p_.hop(stage - 1));
  }

  void arrive(int stage, int kind, int microbatch, double time) {
    const int r = p_.rank_of(stage), chunk = stage < p_.ranks ? 0 : 1;
    ranks_[size(r)].arrival[kind + 2 * chunk][size(microbatch)] = time;
    wake(r, time);
  }

  const OrderProblem& p_;
  const Policy& policy_;
  Rows rows_;
  std::vector<Rank> ranks_;
  std::vector<double> wake_;
  double next_arrival_ = kNever;
};

}  // namespace

Rows list_schedule(const OrderProblem& problem, const Policy& policy, Score& score) {
  return Scheduler(problem, policy).run(score);
}

}  // namespace panpipe::search
