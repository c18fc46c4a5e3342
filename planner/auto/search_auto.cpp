// --method auto: every configuration in closed form; the best bounds by a replay of their orders; the best of those lowered and
// estimated, until no bound is left below the best plan; then its neighbours, and the finalists with contention.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/parallel_for.hpp"
#include "planner/auto/exact.hpp"
#include "planner/auto/finalists.hpp"
#include "planner/auto/last_families.hpp"
#include "planner/auto/order_replay.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kPerRound = 4;          // estimated after each round of the enumeration: they exclude what follows
constexpr std::size_t kReplayed = 512;        // orders replayed at a time
constexpr std::size_t kEstimatedAtOnce = 16;  // does not depend on the number of threads, so the answer does not either
constexpr std::size_t kMostEstimated = 640;
constexpr int kImproved = 3, kMovesEach = 96;
constexpr std::size_t kTriedLast = 3;
// Plans that are simulated: so many at least, and while an estimate is below the least simulated step so many at most. Apart from
// how many are shown, so that what is shown does not change what is best.
constexpr std::size_t kSimulated = 8, kMostSimulated = 32;
constexpr std::size_t kOfOneShape = 2;      // plans of the same degrees that are estimated because contention may choose them
constexpr std::size_t kMostContended = 96;  // of all degrees

class AutoSearch {
 public:
  AutoSearch(const Experiment& experiment, const SearchOptions& options)
      : experiment_(experiment),
        options_(options),
        space_(space_of(experiment, options.limits)),
        common_(experiment, space_),
        enumeration_(common_, options) {
    for (int i = 0; i < std::max(1, options.threads); ++i) evaluators_.push_back(std::make_unique<Evaluator>(common_));
  }

  Answer run() {
    sweep_all();
    refine();
    improve();
    try_last();
    contend();
    return answer();
  }

 private:
  double incumbent() const { return best_.empty() ? kInfinite : best_.front().step_time; }

  void tell() {
    if (!options_.progress) return;
    SearchState state;
    state.evaluated = enumeration_.tally().evaluated;
    state.pruned = enumeration_.tally().skipped_slow + enumeration_.tally().skipped_shape;
    state.best = best_.empty() ? 0 : incumbent();
    state.lower_bound = open_.empty() ? 0 : std::min(open_.front().bound, state.best > 0 ? state.best : kInfinite);
    options_.progress(state);
  }

  void sweep_all() {
    // Where there are many shapes, a shape is priced once for all numbers of devices.
    const bool rounds = rounds_of(space_, 1).size() > 1;
    const auto sweeps = rounds ? std::vector<std::vector<bool>>{{true, false}} : std::vector<std::vector<bool>>{{true}, {false}};
    for (const std::vector<bool>& wholes : sweeps) {
      std::set<GraphShape> without_use;
      for (const int micro : space_.micro) {
        if (options_.stopped()) return;
        if (sweep(micro, wholes, rounds, without_use)) continue;
        largest_micro_ = micro;
        break;
      }
    }
  }

  // False where larger microbatches are of no use: they take no less room, and their work is the same. Shapes of which that is
  // known are left out.
  bool sweep(int micro, const std::vector<bool>& wholes, bool by_shape, std::set<GraphShape>& without_use) {
    Tally all;
    std::size_t tried = 0;
    for (std::vector<GraphShape>& shapes : rounds_of(space_, micro)) {
      std::erase_if(shapes, [&](const GraphShape& shape) { return without_use.count(of_any_micro(shape)) > 0; });
      tried += shapes.size();
      Enumeration::Round round(std::move(shapes));
      std::vector<Tally> sums(round.shapes.size());
      for (const bool whole : wholes) {
        const std::vector<Tally> tallies = enumeration_.run_round(round, whole, whole != wholes.back(), incumbent());
        for (std::size_t s = 0; s < sums.size(); ++s) sums[s].add(tallies[s]);
        merge(enumeration_.take());
        if (micro == space_.micro.front() || !by_shape) estimate_first(kPerRound);
        tell();
      }
      for (std::size_t s = 0; s < sums.size(); ++s) {
        all.add(sums[s]);
        const GraphShape &shape = round.shapes[s], any_micro = of_any_micro(shape);
        double& least = least_bounds_.try_emplace(shape, kInfinite).first->second;
        least = std::min(least, sums[s].least_bound);
        LeastBound& last = last_bounds_[any_micro];
        if (by_shape && ended(sums[s], last, micro)) without_use.insert(any_micro);
        last = {micro, sums[s].least_bound};
      }
    }
    if (by_shape) estimate_first(kPerRound);
    return by_shape ? tried > 0 : all.evaluated == 0 || all.evaluated > all.without_room;
  }

  // What a shape's configurations take at least with a microbatch.
  struct LeastBound {
    int micro = 0;
    double bound = kInfinite;
  };

  // Of one shape: where it is not possible, fits nowhere, or where no microbatch is large enough. What a microbatch costs apart
  // from its samples (launches, latencies, products below their full rate) falls as 1/micro, and nothing else falls: from the
  // gain between two microbatches follows what is left to gain.
  bool ended(const Tally& tally, const LeastBound& before, int micro) const {
    if (tally.skipped_shape > 0) return true;
    if (tally.evaluated + tally.skipped_slow == 0) return false;
    if (tally.evaluated == tally.without_room) return true;
    if (before.bound == kInfinite) return false;
    const double gain = std::max(0.0, before.bound - tally.least_bound);
    return tally.least_bound - gain * before.micro / (micro - before.micro) >= incumbent();
  }

  static GraphShape of_any_micro(GraphShape shape) {
    shape.micro = 1;
    return shape;
  }

  void merge(std::vector<Priced> found) {
    std::vector<Priced> all;
    all.reserve(open_.size() + found.size());
    std::merge(open_.begin(), open_.end(), found.begin(), found.end(), std::back_inserter(all));
    open_ = std::move(all);
  }

  // Takes the first of the open ones; those that prove too slow go.
  void estimate_first(std::size_t count) {
    const auto end = std::find_if(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(std::min(count, open_.size())),
                                  [&](const Priced& one) { return one.bound >= incumbent(); });
    std::vector<Priced> chosen(open_.begin(), end);
    open_.erase(open_.begin(), end);
    // Where nothing has fitted yet, also those that need the least memory.
    const auto smaller = [](const Priced& x, const Priced& y) { return x.memory != y.memory ? x.memory < y.memory : x < y; };
    for (std::size_t i = 0; best_.empty() && estimated_ > 0 && i < count && !open_.empty(); ++i) {
      const auto least = std::min_element(open_.begin(), open_.end(), smaller);
      chosen.push_back(*least);
      open_.erase(least);
    }
    estimate_all(chosen);
    drop_slow();
  }

  void drop_slow() {
    const auto slow =
        std::lower_bound(open_.begin(), open_.end(), incumbent(), [](const Priced& a, double limit) { return a.bound < limit; });
    excluded_ += open_.end() - slow;
    open_.erase(slow, open_.end());
  }

  void estimate_all(const std::vector<Priced>& chosen) {
    std::vector<Exact> results(chosen.size());
    in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
      results[i] = evaluator.evaluate(chosen[i].configuration);
      results[i].bound = chosen[i].bound;
    });
    estimated_ += static_cast<std::int64_t>(results.size());
    for (Exact& result : results) {
      if (result.usable()) {
        best_.push_back(std::move(result));
      } else if (result.step_time > 0) {
        if (without_room_++ == 0 || result.memory < least_memory_) least_memory_ = result.memory;
      } else {
        if (without_order_++ == 0) fault_ = result.fault;
      }
    }
    std::sort(best_.begin(), best_.end());
    if (best_.size() > kept_) best_.resize(kept_);
  }

  template <class Work>
  void in_parallel(std::size_t count, Work work) {
    parallel_for(count, static_cast<int>(evaluators_.size()),
                 [&](std::size_t i, std::size_t worker) { work(i, *evaluators_[worker]); });
  }

  // Best first: bounds are sharpened by replay, then the first are estimated, until nothing open can be better.
  void refine() {
    std::size_t estimated = 0;
    while (!open_.empty() && open_.front().bound < incumbent() && !options_.stopped()) {
      if (estimated >= kMostEstimated) return;  // what is open bounds the answer
      sharpen();
      drop_slow();
      const std::size_t count = std::min(kEstimatedAtOnce, open_.size());
      estimated += count;
      estimate_first(count);
      tell();
    }
  }

  // Until the first to be estimated have the bounds of their orders.
  void sharpen() {
    for (;;) {
      const std::size_t first = std::min(kEstimatedAtOnce, open_.size());
      const auto end = open_.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::all_of(open_.begin(), end, [](const Priced& one) { return one.replayed; })) return;
      const auto count = static_cast<std::ptrdiff_t>(std::min(kReplayed, open_.size()));
      std::vector<Priced> head;
      for (auto one = open_.begin(); one != open_.begin() + count; ++one)
        if (!one->replayed) head.push_back(*one);
      std::erase_if(open_, [&, i = std::ptrdiff_t{0}](const Priced& one) mutable { return i++ < count && !one.replayed; });
      replays_ += replay_orders(head, common_, options_.threads);
      std::sort(head.begin(), head.end());
      merge(std::move(head));
    }
  }

  void improve() {
    if (best_.empty() || options_.stopped() || !experiment_.scenario.partition.empty()) return;
    const std::size_t count = std::min<std::size_t>(kImproved, best_.size());
    std::vector<Exact> better(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(count));
    in_parallel(count, [&](std::size_t i, Evaluator& evaluator) { better[i] = improve_cuts(evaluator, better[i], kMovesEach); });
    std::copy(better.begin(), better.end(), best_.begin());
    std::sort(best_.begin(), best_.end());
  }

  // Where the schedule is open: families without closed forms, on the degrees of the best plans.
  void try_last() {
    if (!is_open(experiment_.scenario, "schedule") || space_.stages > 0) return;
    std::vector<Exact> starts;
    for (const Exact& one : best_) {
      const auto alike = [&](const Exact& other) { return same_degrees(one.configuration, other.configuration); };
      if (starts.size() < kTriedLast && std::none_of(starts.begin(), starts.end(), alike)) starts.push_back(one);
    }
    std::vector<LastTried> tried(starts.size());
    in_parallel(starts.size(), [&](std::size_t i, Evaluator& evaluator) {
      tried[i] = try_last_families(evaluator, common_.ground, starts[i], options_);
    });
    const double before = incumbent();
    for (LastTried& each : tried) {
      for (const std::string& name : each.families)
        if (std::find(tried_last_.begin(), tried_last_.end(), name) == tried_last_.end()) tried_last_.push_back(name);
      std::move(each.found.begin(), each.found.end(), std::back_inserter(best_));
    }
    std::sort(best_.begin(), best_.end());
    if (incumbent() < before) gained_last_ = 1 - incumbent() / before;
  }

  double least_simulated() const {
    double least = kInfinite;
    for (const Exact& one : best_)
      if (!one.simulated.empty()) least = std::min(least, one.simulated.front().second);
    return least;
  }

  // Contention only adds to an estimate: a plan whose estimate is above a simulated step cannot be faster.
  void simulate_best(std::size_t least) {
    std::vector<Exact*> first;  // simulated whatever comes out: at once
    for (Exact& one : best_)
      if (one.simulated.empty() && simulated_ + first.size() < least) first.push_back(&one);
    in_parallel(first.size(), [&](std::size_t i, Evaluator& evaluator) {
      if (!options_.stopped()) simulate(*first[i], evaluator, options_);
    });
    simulated_ += static_cast<std::size_t>(
        std::count_if(first.begin(), first.end(), [](const Exact* one) { return !one->simulated.empty(); }));
    for (std::size_t i = 0; i < best_.size() && simulated_ < kMostSimulated && !options_.stopped(); ++i) {
      if (!best_[i].simulated.empty()) continue;
      if (simulated_ >= least && best_[i].step_time >= least_simulated()) return;
      simulate(best_[i], *evaluators_.front(), options_);
      ++simulated_;
    }
  }

  // All configurations with a bound below the limit. Shapes that have none are known.
  void price_again(Enumeration& again, double limit) {
    for (const int micro : space_.micro) {
      for (std::vector<GraphShape>& shapes : rounds_of(space_, micro)) {
        std::erase_if(shapes, [&](const GraphShape& shape) {
          const auto known = least_bounds_.find(shape);
          return known == least_bounds_.end() || known->second >= limit;
        });
        Enumeration::Round round(std::move(shapes));
        for (const bool whole : {true, false})
          if (!options_.stopped()) again.run_round(round, whole, whole, limit);
      }
    }
  }

  // Where links are shared the plan with the least estimate need not be the fastest: all degrees whose bound is below the least
  // simulated step are looked at once more.
  void contend() {
    if (best_.empty() || !options_.simulate) return;
    simulate_best(kSimulated);
    constexpr double kRounding = 1 + 1e-9;
    if (options_.stopped() || least_simulated() <= incumbent() * kRounding) return;
    Enumeration again(common_, options_);
    price_again(again, least_simulated());
    std::map<DegreesKey, std::size_t> of_degrees;
    std::vector<Priced> chosen;
    std::int64_t others = 0;
    for (const Priced& one : again.take()) {
      const auto known = [&](const Exact& exact) {
        return !(exact.configuration < one.configuration) && !(one.configuration < exact.configuration);
      };
      std::size_t& count = of_degrees[degrees_key(one.configuration)];
      if (std::any_of(best_.begin(), best_.end(), known)) {
        ++count;
      } else if (chosen.size() < kMostContended && count < kOfOneShape) {
        ++count;
        chosen.push_back(one);
      } else {
        ++others;
      }
    }
    kept_ = kKept + chosen.size();
    estimate_all(chosen);
    simulate_best(kSimulated);
    below_simulated_ = true;
    const double least = least_simulated();
    could_be_faster_ = others + std::count_if(best_.begin(), best_.end(),
                                              [&](const Exact& one) { return one.simulated.empty() && one.step_time < least; });
    if (again.dropped() < least) ++could_be_faster_;
  }

  using DegreesKey = std::tuple<GraphShape, int, int, int, Recompute, AxisOrder>;
  static DegreesKey degrees_key(const Configuration& c) { return {c.shape(), c.pipeline, c.data, c.zero, c.recompute, c.order}; }
  static bool same_degrees(const Configuration& a, const Configuration& b) { return degrees_key(a) == degrees_key(b); }

  // Closed forms take the first type's times: on several types they bound nothing.
  bool one_type() const {
    const std::vector<Device>& devices = experiment_.scenario.cluster.devices;
    return std::all_of(devices.begin(), devices.end(), [&](const Device& d) { return d.type == devices.front().type; });
  }

  Answer answer() {
    Answer answer;
    answer.method = Method::Auto;
    answer.objective = "step_time_s";
    answer.interrupted = options_.stopped();
    const Tally& tally = enumeration_.tally();
    SearchState& state = answer.search;
    state.evaluated = tally.evaluated;
    state.pruned = tally.skipped_slow + tally.skipped_shape;
    bool least_proved = false;
    if (!best_.empty()) {
      const double open = std::min(open_.empty() ? kInfinite : open_.front().bound, enumeration_.dropped());
      state.best = incumbent();
      const bool bounded = !answer.interrupted && one_type() && !common_.crowded;
      state.lower_bound = bounded ? std::min(open, state.best) : 0;
      add_finalists(best_, *evaluators_.front(), options_, answer);
      // The simulation may choose a plan whose estimate is not the least: then the proof is of another plan.
      least_proved = bounded && open >= state.best;
      state.proved_optimal = least_proved && answer.candidates.front().metrics.front().second <= state.best;
    }
    Account account;
    account.tally = &tally;
    account.estimated = estimated_;
    account.replayed = replays_;
    account.without_room = without_room_;
    account.without_order = without_order_;
    account.excluded = excluded_;
    account.least_memory = least_memory_;
    account.fault = fault_;
    account.open = static_cast<std::int64_t>(open_.size());
    account.largest_micro = largest_micro_;
    account.tried_last = tried_last_;
    account.gained_last = gained_last_;
    account.simulated = simulated_;
    account.could_be_faster = could_be_faster_;
    account.below_simulated = below_simulated_ || (simulated_ > 0 && least_simulated() <= incumbent() * (1 + 1e-9));
    answer.notes = notes_of(account, space_, answer, least_proved);
    if (best_.empty())
      answer.reason = answer.interrupted ? "stopped before a plan was found" : reason_of(account, common_.ground);
    return answer;
  }

  static constexpr std::size_t kKept = 64;
  std::size_t kept_ = kKept, simulated_ = 0;
  std::int64_t could_be_faster_ = 0;
  bool below_simulated_ = false;
  const Experiment& experiment_;
  const SearchOptions& options_;
  Space space_;
  Common common_;
  Enumeration enumeration_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  std::vector<Priced> open_;  // best bound first
  std::vector<Exact> best_;   // estimated and fitting, fastest first
  std::int64_t estimated_ = 0, replays_ = 0, without_room_ = 0, without_order_ = 0, excluded_ = 0;
  double least_memory_ = 0;  // of the estimated that do not fit
  std::string fault_;        // of the first that has no order
  int largest_micro_ = 0;
  std::map<GraphShape, double> least_bounds_;     // of what was priced
  std::map<GraphShape, LeastBound> last_bounds_;  // with the last microbatch, for shapes of any
  std::vector<std::string> tried_last_;           // families
  double gained_last_ = 0;                        // share of the step time
};

}  // namespace

Answer search_auto(const Experiment& experiment, const SearchOptions& options) { return AutoSearch(experiment, options).run(); }

}  // namespace panpipe::planner
