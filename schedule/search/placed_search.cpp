#include "schedule/search/placed_search.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.hpp"
#include "schedule/search/improve.hpp"
#include "schedule/search/lower_bound.hpp"
#include "schedule/search/random.hpp"
#include "schedule/search/rows.hpp"

namespace panpipe::search {
namespace {

constexpr double kNotMade = std::numeric_limits<double>::infinity();
// Passes that list schedules plan, and that the improvement times: a second or two together.
constexpr double kPlannedPasses = 2e7, kTimedPasses = 6e7;
constexpr std::size_t kImproved = 6;  // of the best list schedules

// How one microbatch is laid out, in multiples of a forward: waits in front of each chunk's forwards, then of each chunk's input
// gradients, and how long weight gradients are put off. The next microbatch is wanted `period` times a rank's work later.
struct Layout {
  explicit Layout(int chunks) : values(size(2 * chunks + 3), 0) { values[values.size() - 2] = values[values.size() - 1] = 1; }
  double wait(Kind kind, int chunk) const { return values[size(chunk) + (kind == Kind::F ? 0 : (values.size() - 3) / 2)]; }
  double weight_wait() const { return values[values.size() - 3]; }
  double period() const { return values[values.size() - 2]; }
  double fit() const { return values[values.size() - 1]; }

  std::vector<double> values;
};

// Runs every rank's next pass in turn, by time. The oldest microbatch always finds room: a forward of chunk c leaves one slot to
// each later chunk, and each stage takes microbatches in order.
class ListRun {
 public:
  ListRun(const OrderProblem& problem, const Layout& layout)
      : p_(problem), layout_(layout), ranks_(size(problem.ranks)), rows_(size(problem.ranks)) {
    for (int r = 0; r < p_.ranks; ++r) {
      RankState& rank = ranks_[size(r)];
      rank.next.assign(size(3 * p_.chunks), 0);
      rank.wanted.assign(size(3 * p_.chunks), 0);
      rank.arrival.assign(size(2 * p_.chunks), std::vector<double>(size(p_.microbatches), kNotMade));
      rows_[size(r)].reserve(size(3 * p_.chunks * p_.microbatches));
    }
    std::fill(ranks_[0].arrival[0].begin(), ranks_[0].arrival[0].end(), 0.0);
    lay_out();
  }

  Rows run() {
    std::size_t left = static_cast<std::size_t>(p_.passes());
    while (left > 0) {
      int first = -1;
      for (int r = 0; r < p_.ranks; ++r)
        if (!ranks_[size(r)].stalled && (first < 0 || ranks_[size(r)].now < ranks_[size(first)].now)) first = r;
      if (first < 0) return {};  // cannot be: see above
      if (step(first)) --left;
    }
    return std::move(rows_);
  }

 private:
  struct RankState {
    double now = 0;
    bool stalled = false;                      // until another rank has run a pass
    int held = 0;                              // activations
    std::vector<int> next;                     // microbatch by kind and chunk
    std::vector<double> wanted;                // of microbatch 0, by kind and chunk
    std::vector<std::vector<double>> arrival;  // of inputs, of F and I by chunk
  };
  static std::size_t slot(Kind kind, int chunk) { return 3 * size(chunk) + static_cast<std::size_t>(kind); }
  static std::size_t input(Kind kind, int chunk) { return 2 * size(chunk) + (kind == Kind::F ? 0 : 1); }

  void lay_out() {
    double at = 0;
    for (int s = 0; s < p_.stages(); ++s) {
      at += layout_.wait(Kind::F, s / p_.ranks) * p_.F / p_.ranks;
      ranks_[size(p_.rank_of(s))].wanted[slot(Kind::F, s / p_.ranks)] = at;
      at += p_.length(Kind::F, s) + p_.hop(s);
    }
    for (int s = p_.stages(); s-- > 0;) {
      at += layout_.wait(Kind::I, s / p_.ranks) * p_.F / p_.ranks;
      auto& wanted = ranks_[size(p_.rank_of(s))].wanted;
      wanted[slot(Kind::I, s / p_.ranks)] = at;
      at += p_.length(Kind::I, s) + (s > 0 ? p_.hop(s - 1) : 0);
      wanted[slot(Kind::W, s / p_.ranks)] = at + layout_.weight_wait() * p_.F;
    }
    period_ = layout_.period() * p_.mean_work() / p_.microbatches;
  }

  bool has_room(const RankState& rank, int chunk) const { return rank.held < p_.memory - (p_.chunks - 1 - chunk); }

  // The pass that is wanted first among those that can start, or what the rank waits for. True when a pass ran.
  bool step(int r) {
    RankState& rank = ranks_[size(r)];
    Op best;
    double wanted = kNotMade, next_arrival = kNotMade;
    for (int chunk = 0; chunk < p_.chunks; ++chunk)
      for (const Kind kind : {Kind::F, Kind::I}) {
        const int microbatch = rank.next[slot(kind, chunk)];
        if (microbatch == p_.microbatches || (kind == Kind::F && !has_room(rank, chunk))) continue;
        const double arrival = rank.arrival[input(kind, chunk)][size(microbatch)];
        if (arrival > rank.now) {
          next_arrival = std::min(next_arrival, arrival);
          continue;
        }
        consider(rank, {kind, static_cast<std::uint8_t>(chunk), microbatch}, best, wanted);
      }
    Op weight;
    double weight_wanted = kNotMade;
    for (int chunk = 0; chunk < p_.chunks; ++chunk)
      if (rank.next[slot(Kind::W, chunk)] < rank.next[slot(Kind::I, chunk)])
        consider(rank, {Kind::W, static_cast<std::uint8_t>(chunk), rank.next[slot(Kind::W, chunk)]}, weight, weight_wanted);
    const double gap = next_arrival - rank.now;
    const bool fills = wanted == kNotMade && gap >= layout_.fit() * p_.length(Kind::W, p_.stage_on(r, weight.chunk));
    if (weight_wanted < wanted && (fills || wanted < kNotMade)) {
      best = weight;
      wanted = weight_wanted;
    }
    if (wanted == kNotMade) {
      if (next_arrival == kNotMade)
        rank.stalled = true;
      else
        rank.now = next_arrival;
      return false;
    }
    run(r, best);
    return true;
  }

  void consider(const RankState& rank, const Op& op, Op& best, double& wanted) const {
    const double own = rank.wanted[slot(op.kind, op.chunk)] + op.microbatch * period_;
    if (own >= wanted) return;
    best = op;
    wanted = own;
  }

  void run(int r, const Op& op) {
    RankState& rank = ranks_[size(r)];
    const int s = p_.stage_on(r, op.chunk);
    rank.now += p_.length(op.kind, s);
    ++rank.next[slot(op.kind, op.chunk)];
    rank.held += op.kind == Kind::F ? 1 : op.kind == Kind::W ? -1 : 0;
    rows_[size(r)].push_back(op);
    if (op.kind == Kind::F && s + 1 == p_.stages()) arrive(s, Kind::I, op.microbatch, rank.now);
    if (op.kind == Kind::F && s + 1 < p_.stages()) arrive(s + 1, Kind::F, op.microbatch, rank.now + p_.hop(s));
    if (op.kind == Kind::I && s > 0) arrive(s - 1, Kind::I, op.microbatch, rank.now + p_.hop(s - 1));
    for (RankState& other : ranks_) other.stalled = false;
  }
  void arrive(int stage, Kind kind, int microbatch, double time) {
    ranks_[size(p_.rank_of(stage))].arrival[input(kind, stage / p_.ranks)][size(microbatch)] = time;
  }

  const OrderProblem& p_;
  const Layout& layout_;
  std::vector<RankState> ranks_;
  Rows rows_;
  double period_ = 0;
};

class LayoutSearch {
 public:
  LayoutSearch(const OrderProblem& problem, std::uint64_t seed) : p_(problem), random_(seed), timer_(problem) {}

  struct Tried {
    Layout layout;
    Rows rows;
    Score score;
  };

  std::vector<Tried> run(const Score& bound) {
    try_layout(Layout(p_.chunks));
    const int turns = static_cast<int>(std::clamp(p_.effort * kPlannedPasses / p_.passes(), 20.0, 20000.0));
    for (int turn = 1; turn < turns && bound.better_than(best_.front().score); ++turn)
      try_layout(turn % 3 == 0 ? any() : changed(best_[size(random_.below(static_cast<int>(best_.size())))].layout));
    return std::move(best_);
  }

 private:
  // What each value of a layout may be.
  double any_of(std::size_t value) {
    static constexpr double kWaits[] = {0, 0, 0.5, 1, 2, 3, 4, 6, 8};  // of a way through all ranks, in forwards
    static constexpr double kPeriods[] = {0.25, 0.5, 0.75, 0.9, 1, 1, 1, 1.1, 1.25, 1.5};
    static constexpr double kFits[] = {0, 0.25, 0.5, 0.75, 1, 1, 2};
    const auto one_of = [&](const auto& values) { return values[random_.below(static_cast<int>(std::size(values)))]; };
    const std::size_t waits = size(2 * p_.chunks + 1);
    return value < waits ? one_of(kWaits) : value == waits ? one_of(kPeriods) : one_of(kFits);
  }

  Layout any() {
    Layout layout(p_.chunks);
    for (std::size_t i = 0; i < layout.values.size(); ++i) layout.values[i] = any_of(i);
    return layout;
  }
  Layout changed(Layout layout) {
    for (int changes = 1 + random_.below(2); changes > 0; --changes) {
      const std::size_t which = size(random_.below(static_cast<int>(layout.values.size())));
      layout.values[which] = any_of(which);
    }
    return layout;
  }

  // Keeps the best few, of different scores.
  void try_layout(Layout layout) {
    Tried tried{std::move(layout), {}, {}};
    tried.rows = ListRun(p_, tried.layout).run();
    if (tried.rows.empty() || !timer_.run(tried.rows, tried.score)) return;
    const auto place =
        std::find_if(best_.begin(), best_.end(), [&](const Tried& t) { return !t.score.better_than(tried.score); });
    if (place != best_.end() && !tried.score.better_than(place->score)) return;
    best_.insert(place, std::move(tried));
    if (best_.size() > kImproved) best_.pop_back();
  }

  const OrderProblem& p_;
  Random random_;
  RowTimer timer_;
  std::vector<Tried> best_;
};

}  // namespace

Found find_placed_order(const OrderProblem& problem, const std::vector<Rows>& starts, std::uint64_t seed) {
  PANPIPE_CHECK(problem.memory >= problem.chunks, "the last rank runs all its stages of a microbatch before the first gradient");
  Found found;
  found.bound = lower_bound(problem);
  std::vector<LayoutSearch::Tried> tried = LayoutSearch(problem, seed).run(found.bound);
  RowTimer timer(problem);
  if (problem.comm > 0) {  // passes that meet exactly on free links make good orders with short delays too
    OrderProblem free = problem;
    free.comm = 0;
    for (LayoutSearch::Tried& order : LayoutSearch(free, seed).run(lower_bound(free)))
      if (timer.run(order.rows, order.score)) tried.push_back(std::move(order));
  }
  for (const Rows& rows : starts) {
    Score score;
    if (!rows.empty() && fits_memory(problem, rows) && timer.run(rows, score))
      tried.push_back({Layout(problem.chunks), rows, score});
  }
  std::stable_sort(tried.begin(), tried.end(), [](const auto& a, const auto& b) { return a.score.better_than(b.score); });
  PANPIPE_CHECK(!tried.empty(), "the search found no order");
  found.rows = tried.front().rows;
  found.score = tried.front().score;
  Random random(seed);
  for (auto& start : tried) {
    if (!found.bound.better_than(found.score)) break;
    improve(problem, found.bound, problem.effort * kTimedPasses / static_cast<double>(tried.size()), random, start.rows,
            start.score);
    if (!start.score.better_than(found.score)) continue;
    found.rows = std::move(start.rows);
    found.score = start.score;
  }
  return found;
}

Schedule placed_schedule(const std::string& name, const OrderProblem& problem, std::uint64_t seed) {
  std::vector<Rows> starts;
  const ScheduleOptions options = {{"stages_per_rank", std::to_string(problem.chunks)}};
  for (const char* family : {"hanayo", "interleaved-zero-bubble", "interleaved-1f1b", "group-interleaved"}) {
    if ((family[0] == 'h') == problem.loop || problem.chunks < 2) continue;
    try {
      starts.push_back(rows_of(problem, make_schedule(family, problem.ranks, problem.microbatches, options)));
    } catch (const InputError&) {  // the family does not exist at this size
    }
  }
  const Found found = find_placed_order(problem, starts, seed);
  Schedule schedule = schedule_of(problem, found.rows, name);
  schedule.lower_bound = std::min(found.bound.makespan, found.score.makespan);
  return schedule;
}

}  // namespace panpipe::search
