// --method auto: every configuration in closed form; the best bounds by a replay of their orders; the best of those lowered and
// estimated, until no bound is left below the best plan; then its neighbours, and the finalists with contention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/parallel_for.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/prediction/microbatch_order.hpp"
#include "planner/auto/exact.hpp"
#include "planner/auto/finalists.hpp"
#include "planner/auto/last_families.hpp"
#include "planner/auto/order_replay.hpp"
#include "planner/auto/shard_groups.hpp"
#include "planner/auto/stage_recompute.hpp"
#include "planner/candidate.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kPerRound = 4;          // estimated after each round of the enumeration: they exclude what follows
constexpr std::size_t kReplayed = 512;        // orders replayed at a time
constexpr std::size_t kEstimatedAtOnce = 16;  // does not depend on the number of threads, so the answer does not either
constexpr std::size_t kMostEstimated = 640;
constexpr std::size_t kImproved = 3;         // the best plans, and the best of so many degrees
constexpr std::size_t kTriedLast = 2;        // splits of the work among devices
constexpr std::size_t kFitted = 8;           // configurations at a time whose cuts are moved until they fit
constexpr std::size_t kMostFitted = 64;      // while nothing fits
constexpr std::size_t kMostCrammed = 24;     // configurations that recompute some of their blocks, while that helps
constexpr std::size_t kMostRevisited = 256;  // microbatches of shapes that an extrapolation spoke against
// Plans that are simulated: the least number, and the largest number while an estimate is below the least simulated step. They do
// not depend on the number of shown plans, so that the number shown does not change the best plan.
constexpr std::size_t kSimulated = 8, kMostSimulated = 32;
constexpr std::size_t kOfOneShape = 4;      // plans of the same degrees that are estimated because contention may choose them
constexpr std::size_t kMostContended = 96;  // of all degrees
constexpr std::size_t kAtOnce = 4;          // simulated before the next are chosen

class AutoSearch {
 public:
  AutoSearch(const Experiment& experiment, const SearchOptions& options, double enough)
      : enough_(enough),
        experiment_(experiment),
        options_(options),
        space_(space_of(experiment)),
        common_(experiment, space_),
        enumeration_(common_, options) {
    for (int i = 0; i < std::max(1, options.threads); ++i) evaluators_.push_back(std::make_unique<Evaluator>(common_));
  }

  double overhead() const { return least_overhead(best_); }

  Answer run() {
    sweep_all();
    refine();
    revisit();
    cram();
    fit();
    improve();
    divide();
    try_last();
    order();
    contend();
    return answer();
  }

 private:
  enum class End : std::uint8_t { No, Likely, Surely };  // whether larger microbatches of a shape are of use: end_of()

  double incumbent() const { return best_.empty() ? enough_ : std::min(enough_, best_.front().step_time); }

  void report() {
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
      std::map<Degrees, End> ended;
      bool of_use = true;
      for (const int micro : space_.micro) {
        if (options_.stopped()) break;
        if (sweep(micro, wholes, rounds, ended)) continue;
        if (of_use) account_.largest_micro = micro;
        of_use = false;
        if (!rounds) break;
      }
    }
    // Stopped before anything was estimated: the best bounds so far may yet give a plan.
    if (options_.stopped() && best_.empty()) estimate_first(kPerRound);
  }

  // False where larger microbatches are of no use: they take no less room, and their work is the same. Shapes of which that is
  // known are left out; those of which it is only likely are looked at again.
  bool sweep(int micro, const std::vector<bool>& wholes, bool by_shape, std::map<Degrees, End>& ended) {
    Tally all;
    std::size_t tried = 0;
    for (std::vector<Degrees>& shapes : rounds_of(space_, micro)) {
      if (options_.stopped()) return true;
      std::erase_if(shapes, [&](const Degrees& shape) {
        const auto known = ended.find(of_any_micro(shape));
        if (known != ended.end() && known->second == End::Likely) left_out_.push_back(shape);
        return known != ended.end();
      });
      tried += shapes.size();
      if (shapes.empty()) continue;
      Enumeration::Round round(std::move(shapes));
      std::vector<Tally> sums(round.shapes.size());
      for (const bool whole : wholes) {
        const std::vector<Tally> tallies = enumeration_.run_round(round, whole, whole != wholes.back(), incumbent());
        for (std::size_t s = 0; s < sums.size(); ++s) sums[s].add(tallies[s]);
        merge(enumeration_.take());
        if (options_.stopped()) return true;
        if (micro == space_.micro.front() || !by_shape) estimate_first(kPerRound);
        report();
      }
      for (std::size_t s = 0; s < sums.size(); ++s) {
        all.add(sums[s]);
        const Degrees &shape = round.shapes[s], any_micro = of_any_micro(shape);
        note_least(shape, sums[s]);
        LeastBound& last = last_bounds_[any_micro];
        if (by_shape)
          if (const End end = end_of(sums[s], last, micro); end != End::No) ended[any_micro] = end;
        last = {micro, sums[s].least_bound};
      }
    }
    if (by_shape && tried > 0) estimate_first(kPerRound);
    return by_shape ? tried > 0 : all.evaluated == 0 || all.evaluated > all.without_room;
  }

  void note_least(const Degrees& shape, const Tally& tally) {
    double& least = least_bounds_.try_emplace(shape, kInfinite).first->second;
    least = std::min(least, tally.least_bound);
  }

  // Prices what was left out because it is unlikely to be better, now that a good plan is known: the most promising first, as
  // far as the limit goes.
  void revisit() {
    if (left_out_.empty() || options_.stopped()) return;
    std::stable_sort(left_out_.begin(), left_out_.end(), [&](const Degrees& a, const Degrees& b) {
      return last_bounds_[of_any_micro(a)].bound < last_bounds_[of_any_micro(b)].bound;
    });
    const std::size_t count = std::min(left_out_.size(), kMostRevisited);
    std::size_t first = 0;
    for (; first < count && !options_.stopped(); first += kShapesOfRound) {
      const auto begin = left_out_.begin() + static_cast<std::ptrdiff_t>(first);
      Enumeration::Round round({begin, begin + static_cast<std::ptrdiff_t>(std::min(kShapesOfRound, count - first))});
      for (const bool whole : {true, false}) {
        const std::vector<Tally> tallies = enumeration_.run_round(round, whole, whole, incumbent());
        for (std::size_t s = 0; s < tallies.size(); ++s) note_least(round.shapes[s], tallies[s]);
      }
      merge(enumeration_.take());
    }
    left_out_.erase(left_out_.begin(), left_out_.begin() + static_cast<std::ptrdiff_t>(std::min(first, count)));
    refine();
  }

  // A lower bound of a shape's configurations with a microbatch.
  struct LeastBound {
    int micro = 0;
    double bound = kInfinite;
  };

  // Whether larger microbatches of a shape are of use. Surely not where it is not possible, or fits nowhere. Likely not where the
  // gain between two microbatches is too small: most of what a microbatch costs apart from its samples (launches, latencies)
  // falls as 1/micro, which shows what is left to gain. Products below their full rate, and the bubble, need not follow that.
  End end_of(const Tally& tally, const LeastBound& before, int micro) const {
    if (tally.skipped_shape > 0) return End::Surely;
    if (tally.evaluated + tally.skipped_slow == 0) return End::No;
    if (tally.evaluated == tally.without_room) return End::Surely;
    if (before.bound == kInfinite) return End::No;
    const double gain = std::max(0.0, before.bound - tally.least_bound);
    return tally.least_bound - gain * before.micro / (micro - before.micro) >= incumbent() ? End::Likely : End::No;
  }

  static Degrees of_any_micro(Degrees shape) {
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
    for (std::size_t i = 0; best_.empty() && account_.estimated > 0 && i < count && !open_.empty(); ++i) {
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
    account_.excluded += open_.end() - slow;
    open_.erase(slow, open_.end());
  }

  void estimate_all(const std::vector<Priced>& chosen) {
    std::vector<Exact> results(chosen.size());
    in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
      if (options_.stopped() && (i > 0 || !best_.empty())) return;
      results[i] = evaluator.evaluate(chosen[i].configuration);
      results[i].bound = chosen[i].bound;
    });
    for (Exact& result : results) {
      if (result.step_time == 0 && result.fault.empty()) continue;  // stopped before
      ++account_.estimated;
      if (result.usable()) {
        best_.push_back(std::move(result));
      } else if (result.step_time > 0) {
        if (account_.without_room++ == 0 || result.memory < account_.least_memory) account_.least_memory = result.memory;
        too_large_.push_back({result.bound, result.memory, result.configuration, false});
      } else {
        if (account_.without_order++ == 0) account_.fault = result.fault;
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
    while (!open_.empty() && open_.front().bound < incumbent() && !options_.stopped()) {
      if (refined_ >= kMostEstimated) return;  // what is open bounds the answer
      sharpen();
      drop_slow();
      const std::size_t count = std::min(kEstimatedAtOnce, open_.size());
      refined_ += count;
      estimate_first(count);
      report();
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
      account_.replayed += replay_orders(head, common_, options_.threads);
      std::sort(head.begin(), head.end());
      merge(std::move(head));
    }
  }

  double spare() const { return static_cast<double>(common_.facts.limit) - common_.limit_with_room; }

  // The least step of a plan that leaves the error of the memory model free.
  double roomy_incumbent() const {
    const auto roomy =
        std::find_if(best_.begin(), best_.end(), [&](const Exact& one) { return one.memory <= common_.limit_with_room; });
    return roomy == best_.end() ? enough_ : std::min(enough_, roomy->step_time);
  }

  // Configurations that would be faster, but do not fit or hardly fit, and that do with recompute of some blocks.
  std::vector<Priced> crammed() {
    std::vector<Priced> wanted = enumeration_.take_crammed();
    const double enough = roomy_incumbent();
    const auto add = [&](double bound, double memory, Configuration configuration) {
      if (configuration.recompute != Recompute::None || bound >= enough) return;
      for (const Recompute mode : space_.recompute) {
        configuration.recompute = mode;
        if (mode != Recompute::None) wanted.push_back({bound, memory, configuration, false});
      }
    };
    for (const Exact& one : best_) add(one.step_time, one.memory, one.configuration);
    for (const Priced& one : too_large_) add(one.bound, one.memory, one.configuration);
    std::sort(wanted.begin(), wanted.end());
    std::map<DegreesKey, std::size_t> of_degrees;
    std::erase_if(wanted, [&](const Priced& one) {
      return one.bound >= enough || ++of_degrees[degrees_key(one.configuration)] > kOfOneShape;
    });
    return wanted;
  }

  void cram() {
    if (!common_.by_stage || options_.stopped()) return;
    const std::vector<Priced> wanted = crammed();
    for (std::size_t first = 0; first < std::min(wanted.size(), kMostCrammed); first += kFitted) {
      const double before = roomy_incumbent();
      if (options_.stopped() || wanted[first].bound >= before) break;
      std::vector<Exact> fitted(std::min(kFitted, wanted.size() - first));
      in_parallel(fitted.size(), [&](std::size_t i, Evaluator& evaluator) {
        fitted[i] = fit_recompute(evaluator, wanted[first + i].configuration, spare(), options_);
      });
      account_.crammed += fitted.size();
      for (Exact& one : fitted) {
        if (!one.usable()) continue;
        ++account_.recomputing_some;
        best_.push_back(std::move(one));
      }
      std::sort(best_.begin(), best_.end());
      if (std::isfinite(before) && roomy_incumbent() >= before) break;  // the most promising are no better
    }
  }

  Exact improved(Evaluator& evaluator, const Exact& start) const {
    return first_blocks(*start.plan).empty() ? improve_cuts(evaluator, start, options_)
                                             : improve_recompute(evaluator, start, spare(), options_);
  }

  // Configurations that would be faster, but do not fit with the cuts that balance their times: with cuts that fit.
  void fit() {
    if (options_.stopped() || space_.stages > 0) return;
    std::vector<Priced> tight = enumeration_.take_tight();
    std::erase_if(too_large_, [](const Priced& one) { return one.configuration.pipeline == 1; });
    tight.insert(tight.end(), too_large_.begin(), too_large_.end());
    std::sort(tight.begin(), tight.end());
    std::map<DegreesKey, std::size_t> of_degrees;
    std::erase_if(tight, [&](const Priced& one) {
      return one.bound >= incumbent() || ++of_degrees[degrees_key(one.configuration)] > kOfOneShape;
    });
    account_.tight = tight.size();
    for (std::size_t first = 0; first < std::min(tight.size(), best_.empty() ? kMostFitted : kFitted); first += kFitted) {
      std::vector<Exact> fitted(std::min(kFitted, tight.size() - first));
      in_parallel(fitted.size(), [&](std::size_t i, Evaluator& evaluator) {
        fitted[i] = fit_cuts(evaluator, tight[first + i].configuration, incumbent(), options_);
        fitted[i].bound = tight[first + i].bound;
      });
      for (Exact& one : fitted) {
        if (!one.usable()) continue;
        ++account_.fitted;
        best_.push_back(std::move(one));
      }
    }
    std::sort(best_.begin(), best_.end());
  }

  void improve() {
    if (best_.empty() || options_.stopped() || !experiment_.scenario.partition.empty()) return;
    std::vector<Exact*> chosen = first_of_degrees(kImproved);
    for (std::size_t i = 0; i < std::min(kImproved, best_.size()); ++i)
      if (std::find(chosen.begin(), chosen.end(), &best_[i]) == chosen.end()) chosen.push_back(&best_[i]);
    in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
      *chosen[i] = improved(evaluator, *chosen[i]);
      chosen[i]->cuts_moved = true;
    });
    add_roomier(chosen);
    std::sort(best_.begin(), best_.end());
  }

  // Microbatches of unequal length in the order that a search finds, if the scenario asks for it: of the best plans.
  void order() {
    if (!searches_order(experiment_.scenario) || options_.stopped()) return;
    in_parallel(std::min(kImproved, best_.size()), [&](std::size_t i, Evaluator& evaluator) {
      Exact& one = best_[i];
      Plan plan = *one.plan;
      order_microbatches(experiment_.scenario, evaluator.model(one.configuration), plan);
      Exact next = evaluator.evaluate(one.configuration, plan);
      if (!next.usable() || next.step_time >= one.step_time) return;
      next.bound = one.bound;
      next.cuts_moved = one.cuts_moved;
      next.options = one.options;
      one = std::move(next);
    });
    std::sort(best_.begin(), best_.end());
  }

  // The allocator may reserve more than the search expected. Plans that recompute just enough blocks would then hardly fit: so
  // many more recompute that they have room.
  void add_roomier(const std::vector<Exact*>& chosen) {
    constexpr int kTries = 3;  // a plan with more of them is replayed anew
    std::vector<Exact> roomier(chosen.size());
    in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
      if (first_blocks(*chosen[i]->plan).empty()) return;
      double over = replayed_memory(*chosen[i], evaluator) - common_.limit_with_room, more = 0;
      for (int t = 0; t < kTries && over > 0 && !options_.stopped(); ++t) {
        more += over;
        Exact next = fit_recompute(evaluator, *chosen[i], spare() + more, options_);
        if (!next.usable()) return;
        over = replayed_memory(next, evaluator) - common_.limit_with_room;
        if (over <= 0) roomier[i] = std::move(next);
      }
    });
    for (Exact& one : roomier)
      if (one.usable()) best_.push_back(std::move(one));
  }

  // The best plans, each of other degrees.
  std::vector<Exact*> first_of_degrees(std::size_t count) {
    std::vector<Exact*> chosen;
    for (Exact& one : best_) {
      const auto alike = [&](const Exact* other) { return same_degrees(one.configuration, other->configuration); };
      if (chosen.size() < count && std::none_of(chosen.begin(), chosen.end(), alike)) chosen.push_back(&one);
    }
    return chosen;
  }

  // The best plans with ZeRO in smaller groups.
  void divide() {
    if (!divides_in_groups(experiment_.scenario)) return;
    const std::vector<Exact*> starts = first_of_degrees(kImproved);
    std::vector<Exact> divided(starts.size());
    in_parallel(starts.size(),
                [&](std::size_t i, Evaluator& evaluator) { divided[i] = try_shard_groups(evaluator, *starts[i], options_); });
    for (Exact& one : divided)
      if (one.usable()) best_.push_back(std::move(one));
    std::sort(best_.begin(), best_.end());
  }

  // Where the schedule is open: families without closed forms, on the best plans of several splits.
  void try_last() {
    if (!is_open(experiment_.scenario, "schedule") || space_.stages > 0) return;
    std::vector<Configuration> starts;
    for (const Exact& one : best_) {
      const Configuration& c = one.configuration;
      const auto alike = [&](const Configuration& other) { return split_of(c) == split_of(other); };
      if (starts.size() < kTriedLast && c.pipeline > 1 && std::none_of(starts.begin(), starts.end(), alike)) starts.push_back(c);
    }
    std::vector<LastTried> tried(starts.size());
    in_parallel(starts.size(), [&](std::size_t i, Evaluator& evaluator) {
      tried[i] = try_last_families(evaluator, common_.facts, starts[i], options_);
    });
    const double before = incumbent();
    for (LastTried& each : tried) {
      for (const std::string& name : each.families)
        if (std::find(account_.tried_last.begin(), account_.tried_last.end(), name) == account_.tried_last.end())
          account_.tried_last.push_back(name);
      std::move(each.found.begin(), each.found.end(), std::back_inserter(best_));
    }
    std::sort(best_.begin(), best_.end());
    if (incumbent() < before) account_.gained_last = 1 - incumbent() / before;
  }

  double least_simulated() const {
    double least = kInfinite;
    for (const Exact& one : best_) least = std::min(least, one.simulated_step());
    return least;
  }

  void simulate_all(const std::vector<Exact*>& chosen) {
    in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
      if (!options_.stopped()) simulate(*chosen[i], evaluator, options_);
    });
    account_.simulated += static_cast<std::size_t>(
        std::count_if(chosen.begin(), chosen.end(), [](const Exact* one) { return !one->simulated.empty(); }));
  }

  // Plans that do not fit under contention, as long as others do.
  void drop_unfit() {
    const auto fits = [](const Exact& one) { return one.fits; };
    if (std::any_of(best_.begin(), best_.end(), fits)) std::erase_if(best_, std::not_fn(fits));
  }

  void simulate_best() {
    std::vector<Exact*> first;
    for (Exact& one : best_)
      if (first.size() < kSimulated) first.push_back(&one);
    simulate_all(first);
    drop_unfit();
  }

  // All configurations with a bound below the limit. Shapes that have none are known.
  void price_again(Enumeration& again, double limit) {
    for (const int micro : space_.micro) {
      for (std::vector<Degrees>& shapes : rounds_of(space_, micro)) {
        std::erase_if(shapes, [&](const Degrees& shape) {
          const auto known = least_bounds_.find(shape);
          return known == least_bounds_.end() || known->second >= limit;
        });
        Enumeration::Round round(std::move(shapes));
        for (const bool whole : {true, false})
          if (!options_.stopped()) again.run_round(round, whole, whole, limit);
      }
    }
  }

  // Where links are shared the plan with the least estimate need not be the fastest. Contention depends mostly on which
  // devices exchange how much, so the first plan of a layout shows how the others of it will fare: plans are taken in the order
  // of their bounds times what contention added to the first of their layout, and layouts that are not known yet by their bounds.
  // Contention only adds to an estimate: what is above the least simulated step cannot be faster.
  void contend() {
    if (best_.empty() || !options_.simulate) return;
    simulate_best();
    constexpr double kRounding = 1 + 1e-9;
    if (options_.stopped() || least_simulated() <= incumbent() * kRounding) return;
    Enumeration again(common_, options_);
    price_again(again, least_simulated());
    std::vector<Priced> pool = again.take();
    const auto head = static_cast<std::ptrdiff_t>(std::min(kReplayed, pool.size()));
    std::vector<Priced> sharper(pool.begin(), pool.begin() + head);
    pool.erase(pool.begin(), pool.begin() + head);
    account_.replayed += replay_orders(sharper, common_, options_.threads);
    pool.insert(pool.end(), sharper.begin(), sharper.end());
    kept_ = kKept + kMostContended;
    std::erase_if(pool, [&](const Priced& one) { return known(one.configuration) != nullptr; });
    for (const Exact& one : best_)
      if (one.simulated.empty()) pool.push_back({one.step_time, one.memory, one.configuration, true});
    const std::int64_t estimated_before = account_.estimated;
    std::int64_t others = 0;
    while (account_.simulated < kMostSimulated && !options_.stopped()) {
      const double least = least_simulated();
      std::erase_if(pool, [&](const Priced& one) { return one.bound >= least; });
      const std::vector<Priced> chosen = next_contenders(pool, others);
      if (chosen.empty()) break;
      std::vector<Priced> to_estimate;
      for (const Priced& one : chosen)
        if (known(one.configuration) == nullptr) to_estimate.push_back(one);
      if (account_.estimated - estimated_before + static_cast<std::int64_t>(to_estimate.size()) >
          static_cast<std::int64_t>(kMostContended)) {
        others += static_cast<std::int64_t>(chosen.size());
        break;
      }
      estimate_all(to_estimate);
      std::vector<Exact*> simulated;
      for (const Priced& one : chosen)
        if (Exact* exact = known(one.configuration); exact != nullptr && exact->step_time < least) simulated.push_back(exact);
      simulate_all(simulated);
      drop_unfit();
    }
    polish();
    account_.below_simulated = true;
    const double least = least_simulated();
    account_.could_be_faster =
        others + std::count_if(pool.begin(), pool.end(), [&](const Priced& one) { return one.bound < least; });
    if (again.dropped() < least) ++account_.could_be_faster;
  }

  Exact* known(const Configuration& configuration) {
    const auto found =
        std::find_if(best_.begin(), best_.end(), [&](const Exact& one) { return one.configuration == configuration; });
    return found == best_.end() ? nullptr : &*found;
  }

  // Takes the plans to simulate next out of the pool; adds to `others` how many leave it because enough of the same degrees were
  // looked at.
  std::vector<Priced> next_contenders(std::vector<Priced>& pool, std::int64_t& others) {
    std::map<Layout, double> slowdowns;  // the least seen
    std::map<DegreesKey, std::size_t> of_degrees;
    for (const Exact& one : best_) {
      ++of_degrees[degrees_key(one.configuration)];
      if (one.bound == 0) continue;
      const double slowdown = (one.simulated.empty() ? one.step_time : one.simulated_step()) / one.bound;
      double& least = slowdowns.try_emplace(layout_of(one.configuration), slowdown).first->second;
      least = std::min(least, slowdown);
    }
    const auto expected = [&](const Priced& one) {
      const auto slowdown = slowdowns.find(layout_of(one.configuration));
      return one.bound * (slowdown == slowdowns.end() ? 1 : slowdown->second);
    };
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < pool.size(); ++i) order.emplace_back(expected(pool[i]), i);
    std::sort(order.begin(), order.end());
    std::vector<Priced> chosen;
    std::set<Layout> now;
    std::vector<bool> taken(pool.size());
    for (const auto& [value, i] : order) {
      if (chosen.size() >= std::min(kAtOnce, kMostSimulated - account_.simulated)) break;
      const Layout layout = layout_of(pool[i].configuration);
      if (slowdowns.count(layout) == 0 && now.count(layout) > 0) continue;  // wait for the first of it
      taken[i] = true;
      const bool fresh = known(pool[i].configuration) == nullptr;  // the others are in best_, and counted
      if (fresh && of_degrees[degrees_key(pool[i].configuration)]++ >= kOfOneShape) {
        ++others;
        continue;
      }
      now.insert(layout);
      chosen.push_back(pool[i]);
    }
    std::erase_if(pool, [&, i = std::size_t{0}](const Priced&) mutable { return taken[i++]; });
    return chosen;
  }

  // The cuts of the fastest simulated plans are moved as those of the best estimates were.
  void polish() {
    if (options_.stopped() || space_.stages > 0) return;
    std::vector<Exact*> fastest;
    for (Exact& one : best_)
      if (!one.simulated.empty()) fastest.push_back(&one);
    std::stable_sort(fastest.begin(), fastest.end(),
                     [](const Exact* a, const Exact* b) { return a->simulated_step() < b->simulated_step(); });
    fastest.resize(std::min(fastest.size(), kImproved));
    std::erase_if(fastest, [](const Exact* one) { return one->cuts_moved; });
    std::vector<Exact> better(fastest.size());
    in_parallel(fastest.size(), [&](std::size_t i, Evaluator& evaluator) {
      better[i] = improved(evaluator, *fastest[i]);
      if (better[i].step_time < fastest[i]->step_time) simulate(better[i], evaluator, options_);
    });
    for (std::size_t i = 0; i < fastest.size(); ++i) {
      if (better[i].step_time < fastest[i]->step_time) ++account_.simulated;
      if (better[i].simulated_step() < fastest[i]->simulated_step()) *fastest[i] = std::move(better[i]);
    }
    std::sort(best_.begin(), best_.end());
  }

  // How the work is divided among devices; and, with how the axes lie on them, which devices exchange what.
  using Split = std::tuple<int, int, int, int, int, int>;
  static Split split_of(const Degrees& d) { return {d.tensor, d.pipeline, d.data, d.context, d.expert, d.expert_tensor}; }
  using Layout = std::tuple<Split, int, AxisOrder>;
  static Layout layout_of(const Configuration& c) { return {split_of(c), c.zero, c.order}; }
  using DegreesKey = std::tuple<Degrees, int, int, int, Recompute, AxisOrder>;
  static DegreesKey degrees_key(const Configuration& c) {
    return {c.of_graph(), c.pipeline, c.data, c.zero, c.recompute, c.order};
  }
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
      const bool bounded = !answer.interrupted && one_type() && !common_.crowded && left_out_.empty();
      // Of families without closed forms the work alone is a bound.
      const double least = account_.tried_last.empty() ? open : std::min(open, tally.least_work);
      state.lower_bound = bounded ? std::min(least, state.best) : 0;
      add_finalists(best_, *evaluators_.front(), options_, answer);
      // The simulation may choose a plan whose estimate is not the least: then the proof is of another plan.
      least_proved = bounded && open >= state.best;
      const bool of_this = least_proved && answer.candidates.front().metrics.front().second <= state.best;
      state.proved_optimal = of_this && least >= state.best;
      if (of_this && !state.proved_optimal) state.proved_but_for = account_.tried_last;
    }
    account_.tally = &tally;
    account_.open = static_cast<std::int64_t>(open_.size());
    account_.left_out = left_out_.size();
    account_.by_stage = common_.by_stage;
    account_.below_simulated |= account_.simulated > 0 && least_simulated() <= incumbent() * (1 + 1e-9);
    answer.notes = notes_of(account_, space_, answer, least_proved);
    if (best_.empty())
      answer.reason = answer.interrupted ? "stopped before a plan was found" : reason_of(account_, common_.facts);
    return answer;
  }

  static constexpr std::size_t kKept = 64;
  std::size_t kept_ = kKept, refined_ = 0;
  Account account_;
  const double enough_;
  const Experiment& experiment_;
  const SearchOptions& options_;
  Space space_;
  Common common_;
  Enumeration enumeration_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  std::vector<Priced> open_;                   // best bound first
  std::vector<Exact> best_;                    // estimated and fitting, fastest first
  std::vector<Priced> too_large_;              // estimated, not fitting
  std::vector<Degrees> left_out_;              // with a microbatch of which no bound is known
  std::map<Degrees, double> least_bounds_;     // of what was priced
  std::map<Degrees, LeastBound> last_bounds_;  // with the last microbatch, for shapes of any
};

bool no_plan_fits(const Answer& answer) {
  return !answer.candidates.empty() && std::none_of(answer.candidates.begin(), answer.candidates.end(), fits_in_memory);
}

}  // namespace

// Where no finalist fits once its allocations are replayed, plans are searched again with what these allocators add, instead of
// the framework's factor. A replay may also add less than the factor: what fits only so is searched before.
Answer search_auto(const Experiment& experiment, const SearchOptions& options, double enough) {
  constexpr int kMostAgain = 3;
  constexpr double kLeastStep = 1.01;  // of the factor
  AutoSearch first(experiment, options, enough);
  Answer answer = first.run();
  double factor = first.overhead(), searched = experiment.scenario.framework.allocator_factor;
  const bool replayed = experiment.scenario.framework.allocator != AllocatorModel::Factor;
  if ((answer.candidates.empty() || no_plan_fits(answer)) && replayed && searched > 1 && !options.stopped()) {
    Scenario looser = experiment.scenario;
    looser.framework.allocator_factor = 1;
    const Experiment widened(std::move(looser));
    AutoSearch next(widened, options, enough);
    if (Answer found = next.run(); !found.candidates.empty() && !no_plan_fits(found)) answer = std::move(found);
  }
  for (int again = 0; again < kMostAgain && no_plan_fits(answer) && std::isfinite(factor) && !options.stopped(); ++again) {
    Scenario tighter = experiment.scenario;
    searched = tighter.framework.allocator_factor = std::max(factor, kLeastStep * searched);
    const Experiment narrowed(std::move(tighter));
    AutoSearch next(narrowed, options, enough);
    answer = next.run();
    factor = next.overhead();
    answer.search.proved_optimal = false;  // other plans may have a smaller overhead
    answer.search.proved_but_for.clear();
    answer.notes.push_back(
        fmt::format("searched again: none of the best plans fits as the allocator's replay has it; what it adds is taken as a "
                    "factor of {:.2f}",
                    searched));
  }
  if (no_plan_fits(answer)) {
    const auto need = [](const Candidate& candidate) { return *figure_named(candidate.metrics, "memory_share"); };
    const auto nearest = std::min_element(answer.candidates.begin(), answer.candidates.end(),
                                          [&](const Candidate& a, const Candidate& b) { return need(a) < need(b); });
    answer.reason = fmt::format(
        "none of the best plans fits once the allocator is replayed; the nearest needs {:.1f} % of what a "
        "device may fill ({})",
        100 * need(*nearest), nearest->summary);
    answer.candidates.clear();
  }
  return answer;
}

}  // namespace panpipe::planner
