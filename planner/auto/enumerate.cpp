#include "planner/auto/enumerate.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "costmodel/degrees/check_degrees.hpp"
#include "planner/auto/crammed.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kMostKept = 200'000;
constexpr std::size_t kMostTight = 512;

// Leaves the best bounds, if there are many more.
void trim_tight(std::vector<Priced>& tight, std::size_t allowed) {
  if (tight.size() <= allowed) return;
  const auto end = tight.begin() + static_cast<std::ptrdiff_t>(kMostTight);
  std::nth_element(tight.begin(), end, tight.end());
  tight.erase(end, tight.end());
}

}  // namespace

void Tally::add(const Tally& other) {
  evaluated += other.evaluated;
  without_room += other.without_room;
  too_slow += other.too_slow;
  skipped_slow += other.skipped_slow;
  skipped_shape += other.skipped_shape;
  least_bound = std::min(least_bound, other.least_bound);
  if (other.least_memory > 0 && (least_memory == 0 || other.least_memory < least_memory)) {
    least_memory = other.least_memory;
    least_memory_of = other.least_memory_of;
  }
  if (other.least_work > 0 && (least_work == 0 || other.least_work < least_work)) least_work = other.least_work;
  if (shape_reason.empty()) shape_reason = other.shape_reason;
}

// One variant's configurations, over all degrees that are not its own.
namespace {

class Worker {
 public:
  Worker(Common& common, const Degrees& shape, std::unique_ptr<Pricer>& pricer, bool whole, double incumbent)
      : common_(common), space_(common.space), whole_(whole), incumbent_(incumbent), pricer_(pricer) {
    static_cast<Degrees&>(base_) = shape;
    base_.shard = common.experiment.scenario.degrees.shard;
  }

  void run(bool again) {
    if (common_.stopped() || !any_sizes() || !make_pricer()) return;
    for (auto p = space_.pipeline.rbegin(); p != space_.pipeline.rend(); ++p) {
      if (common_.stopped() || std::int64_t{*p} * base_.tensor > space_.devices) continue;
      for (const int chunks : space_.chunks) run_layouts(*p, chunks);
    }
    traffic_.clear();
    if (!again) pricer_.reset();  // here, in parallel with the other workers
  }

  Tally tally;
  std::vector<Priced> found, tight, crammed;

 private:
  bool make_pricer() {
    try {
      if (!pricer_) pricer_ = std::make_unique<Pricer>(common_, base_.of_graph());
      return true;
    } catch (const InputError& error) {
      tally.shape_reason = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
      tally.skipped_shape = count_all();
      return false;
    }
  }

  bool possible(int p, int d) const {
    if (space_.shards_where_divided && p * base_.tensor > 1 && d * base_.context == 1) return false;
    return fits_devices(p, d) && microbatches_of(space_, base_.micro, d) > 0 && degrees_hold(degrees(d));
  }
  Degrees degrees(int d) const {
    Degrees degrees = base_;
    degrees.data = d;
    return degrees;
  }
  bool any_sizes() const {
    return std::any_of(space_.pipeline.begin(), space_.pipeline.end(), [&](int p) {
      return std::any_of(space_.data.begin(), space_.data.end(), [&](int d) { return possible(p, d); });
    });
  }

  // Configurations of this variant, had it been possible.
  std::int64_t count_all() const {
    std::int64_t count = 0;
    for (const int p : space_.pipeline)
      for (const int chunks : space_.chunks)
        for (const int d : space_.data)
          if (fits_devices(p, d))
            if (const auto m = static_cast<int>(microbatches_of(space_, base_.micro, d)); m > 0)
              count += static_cast<std::int64_t>(space_.recompute.size()) * families_of(p, chunks, m, nullptr) * repeats(p, d);
    return count;
  }

  bool fits_devices(int p, int d) const { return whole_ ? devices(p, d) == space_.devices : devices(p, d) < space_.devices; }
  // The product of the degrees; it may be beyond the devices that there are.
  std::int64_t devices(int p, int d) const { return std::int64_t{p} * d * base_.context * base_.tensor; }
  // ZeRO stages and numberings that make a difference.
  std::int64_t repeats(int p, int d) const {
    Degrees of = degrees(d);
    of.pipeline = p;
    return static_cast<std::int64_t>(zeros_of(space_, of).size() * orders(p, d));
  }

  std::size_t orders(int p, int d) const {
    return p > 1 && d > 1 && base_.context == 1 ? space_.orders.size() : 1;  // context ranks stay neighbours
  }

  // How many families there are for these sizes; of one placement, or of all.
  std::int64_t families_of(int p, int chunks, int m, const StagePlacement* placement) const {
    return std::count_if(space_.families.begin(), space_.families.end(), [&](int f) {
      return (placement == nullptr || forms()[f].placement == *placement) && exists(forms()[f], p, chunks, m);
    });
  }

  bool exists(const FamilyForm& form, int p, int chunks, int m) const {
    if (pricer_ && form.split && form.placement != StagePlacement::Opaque && !pricer_->sums().split_backward()) return false;
    // On one rank all orders of one stage are alike, and the default holds least; a rank of its own is not cut into stages.
    if (p == 1 && space_.families.size() > 1 && form.name != ScheduleRequest().name) return false;
    if (chunks == 1 && form.open_chunks() && default_searched_) return false;  // with one stage a rank that one stands for it
    return form.exists(p, chunks, m);
  }

  void run_layouts(int p, int chunks) {
    const int stages = p * chunks;
    if (space_.stages > 0 ? stages != space_.stages : stages > pricer_->sums().most_stages()) return;
    sizes_.clear();
    for (const int d : space_.data)
      if (possible(p, d)) sizes_.push_back(d);
    if (sizes_.empty()) return;
    for (const Recompute mode : space_.recompute)
      for (const StagePlacement placement :
           {StagePlacement::Line, StagePlacement::Loop, StagePlacement::Vee, StagePlacement::Opaque})
        run_layout(p, chunks, mode, placement);
  }

  void run_layout(int p, int chunks, Recompute mode, StagePlacement placement) {
    std::optional<PlacedStages> placed;
    with_recompute_.clear();
    for (const int d : sizes_) {
      const auto m = static_cast<int>(microbatches_of(space_, base_.micro, d));
      const std::int64_t families = families_of(p, chunks, m, &placement);
      if (families == 0) continue;
      // The mean work of the ranks, in any order.
      const double work =
          m * pricer_->sums().least_work(mode) * common_.facts.stated_work / p * common_.facts.jitter(p, devices(p, d));
      if (tally.least_work == 0 || work < tally.least_work) tally.least_work = work;
      if (work >= incumbent_) {
        tally.skipped_slow += families * repeats(p, d);
        tally.least_bound = std::min(tally.least_bound, work);
        continue;
      }
      if (!placed) placed.emplace(pricer_->place_stages(mode, p, chunks, placement));
      const double least = m * least_busy(*placed) * common_.facts.jitter(p, devices(p, d));
      if (no_room(*placed, d, m) && !(least < incumbent_ && may_be_crammed(*placed, mode, d, m))) {
        tally.evaluated += families * repeats(p, d);
        tally.without_room += families * repeats(p, d);
        continue;
      }
      if (many_shapes_ && least >= incumbent_) {
        tally.evaluated += families * repeats(p, d);
        tally.too_slow += families * repeats(p, d);
        tally.least_bound = std::min(tally.least_bound, least);
        continue;
      }
      run_data(*placed, mode, d, m);
    }
  }

  void run_data(const PlacedStages& placed, Recompute mode, int d, int m) {
    const int p = placed.ranks;
    base_.pipeline = p;
    base_.virtual_stages = placed.chunks;
    base_.data = d;
    base_.microbatches = m;
    base_.recompute = mode;
    traffic_.resize(space_.orders.size());
    const std::size_t count = orders(p, d);
    for (std::size_t o = 0; o < count; ++o) {
      base_.order = space_.orders[o];
      pricer_->prepare(traffic_[o], placed, base_);
    }
    for (const int f : space_.families) {
      const FamilyForm& form = forms()[f];
      if (form.placement != placed.placement || !exists(form, p, placed.chunks, m)) continue;
      base_.family = static_cast<std::int16_t>(f);
      run_family(placed, form, count);
    }
    trim_tight(tight, 8 * kMostTight);
    trim_tight(crammed, 8 * kMostTight);
  }

  void price(const PlacedStages& placed, const FamilyForm& form, std::size_t orders, const OrderCounts& counts) {
    activation_peaks(placed, counts, peaks_);
    counts_ = &counts;
    with_recompute_.new_counts();
    bounds_.resize(orders);
    for (std::size_t o = 0; o < orders; ++o) bounds_[o] = traffic_[o].bounds(form, base_.microbatches, counts);
  }

  bool above_limit(double memory) const { return memory > static_cast<double>(common_.facts.limit); }
  // Whether it does not fit, but may with cuts that give the fullest rank less.
  bool is_tight(const RankMemories& memory) const {
    return space_.stages == 0 && above_limit(memory.largest) && !above_limit(memory.mean);
  }
  bool least(double memory) const { return tally.least_memory == 0 || memory < tally.least_memory; }

  // The work of the busiest rank for one microbatch, in any family of this placement, without hand-overs.
  double least_busy(const PlacedStages& placed) const {
    if (placed.placement == StagePlacement::Opaque) return 0;
    const bool woven = std::any_of(space_.families.begin(), space_.families.end(),
                                   [&](int f) { return forms()[f].placement == placed.placement && forms()[f].woven; });
    const bool split = pricer_->sums().split_backward();
    double most = 0;
    for (const PlacedStages::Rank& rank : placed.rank) {
      const double whole = split ? std::min(rank.fused, rank.split) : rank.fused;
      most = std::max(most, woven || !common_.facts.count_collectives ? std::min(rank.work, whole) : whole);
    }
    return most;
  }

  // Whether it fits in no order, and needs more memory than another one that does not fit.
  bool no_room(const PlacedStages& placed, int d, int m) {
    activation_peaks(placed, any_order_of(placed), peaks_);
    const Degrees of = degrees(d);
    const std::vector<int>& zeros = zeros_of(space_, of);
    return std::all_of(zeros.begin(), zeros.end(), [&](int zero) {
      const RankMemories memory = memory_peaks(placed, common_.facts, pricer_->per_parameter(zero, d), peaks_, m);
      return above_limit(memory.largest) && !least(memory.largest) && !is_tight(memory);
    });
  }

  // For a configuration priced without an order: whether the order may change its outcome. The others are too slow or do not fit
  // in any order, and only the least memory of those that do not fit is reported.
  bool order_matters(const PlacedStages& placed) {
    const bool room_seen = tally.evaluated > tally.without_room;
    for (const int zero : zeros_of(space_, base_)) {
      const PerParameter& per = pricer_->per_parameter(zero, base_.data);
      const RankMemories memory = memory_peaks(placed, common_.facts, per, peaks_, base_.microbatches);
      const auto fast = [&](const std::array<double, 4>& bounds) { return bounds[per.zero] < incumbent_; };
      const bool any_fast = std::any_of(bounds_.begin(), bounds_.end(), fast);
      if (!above_limit(memory.largest) ? !room_seen || any_fast : least(memory.largest) || (any_fast && is_tight(memory)))
        return true;
    }
    return false;
  }

  // Whether what does not fit would with recompute.
  bool may_be_crammed(const PlacedStages& placed, Recompute mode, int d, int m) {
    if (mode != Recompute::None) return false;
    const Degrees of = degrees(d);
    with_recompute_.new_counts();
    return with_recompute_.makes_room(*pricer_, placed, any_order_of(placed), zeros_of(space_, of), d, m);
  }

  const OrderCounts& any_order_of(const PlacedStages& placed) {
    if (placed.placement == StagePlacement::Opaque) return no_order_;
    const std::pair sizes(placed.ranks, placed.chunks);
    if (sizes != any_order_sizes_) any_order_ = any_order(placed.ranks, placed.chunks);
    any_order_sizes_ = sizes;
    return any_order_;
  }

  void run_family(const PlacedStages& placed, const FamilyForm& form, std::size_t orders) {
    price(placed, form, orders, any_order_of(placed));
    if (form.placement != StagePlacement::Opaque && order_matters(placed))
      price(placed, form, orders, common_.orders.find(form, placed.ranks, placed.chunks, base_.microbatches));
    for (const int zero : zeros_of(space_, base_)) {
      base_.zero = zero;
      const PerParameter& per = pricer_->per_parameter(zero, base_.data);
      const RankMemories peaks = memory_peaks(placed, common_.facts, per, peaks_, base_.microbatches);
      const double memory = peaks.largest;
      for (std::size_t o = 0; o < orders; ++o) {
        base_.order = space_.orders[o];
        const double bound = bounds_[o][per.zero];
        ++tally.evaluated;
        if (above_limit(memory)) {
          ++tally.without_room;
          if (least(memory)) tally.least_memory = memory, tally.least_memory_of = base_;
          if (bound < incumbent_ && is_tight(peaks)) tight.push_back({bound, memory, base_, false});
          with_recompute_.add(
              *pricer_, placed, *counts_, per, {bound, memory, base_, false}, incumbent_,
              [&](const PlacedStages& stages) { return least_busy(stages); }, crammed);
          continue;
        }
        tally.least_bound = std::min(tally.least_bound, bound);
        if (bound >= incumbent_) {
          ++tally.too_slow;
        } else {
          found.push_back({bound, memory, base_, false});
        }
      }
    }
  }

  Common& common_;
  const Space& space_;
  bool whole_;
  double incumbent_;
  // Then a configuration's work alone shows that it is too slow, before hand-overs and memory are computed.
  const bool many_shapes_ = space_.context.size() * space_.expert.size() * space_.expert_tensor.size() > 1;
  Configuration base_;
  std::unique_ptr<Pricer>& pricer_;
  std::vector<StageTraffic> traffic_;
  std::vector<double> peaks_;
  const OrderCounts* counts_ = nullptr;  // that were priced last
  Crammed with_recompute_{common_};
  std::vector<std::array<double, 4>> bounds_;  // by numbering of the devices
  std::vector<int> sizes_;                     // data degrees
  const bool default_searched_ = std::any_of(space_.families.begin(), space_.families.end(),
                                             [](int f) { return forms()[f].name == ScheduleRequest().name; });
  const OrderCounts no_order_;
  OrderCounts any_order_;  // of these ranks and stages a rank
  std::pair<int, int> any_order_sizes_{0, 0};
};

}  // namespace

std::vector<Tally> Enumeration::run_round(Round& round, bool whole, bool again, double incumbent) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t w = 0; w < round.shapes.size(); ++w)
    workers.push_back(std::make_unique<Worker>(common_, round.shapes[w], round.pricers[w], whole, incumbent));
  parallel_for(workers.size(), common_.options.threads, [&](std::size_t w, std::size_t) { workers[w]->run(again); });
  std::vector<Tally> tallies;
  for (const auto& worker : workers) {
    tallies.push_back(worker->tally);
    tally_.add(worker->tally);
    keep(worker->found);
    tight_.insert(tight_.end(), worker->tight.begin(), worker->tight.end());
    crammed_.insert(crammed_.end(), worker->crammed.begin(), worker->crammed.end());
  }
  trim_tight(tight_, kMostTight);
  trim_tight(crammed_, kMostTight);
  return tallies;
}

void Enumeration::keep(const std::vector<Priced>& found) {
  kept_.insert(kept_.end(), found.begin(), found.end());
  if (kept_.size() <= kMostKept) return;
  const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(kMostKept);
  std::nth_element(kept_.begin(), last, kept_.end());
  dropped_ = std::min(dropped_, last->bound);
  kept_.erase(last, kept_.end());
}

std::vector<Priced> Enumeration::taken(std::vector<Priced>& kept) {
  std::sort(kept.begin(), kept.end());
  return std::exchange(kept, {});
}

}  // namespace panpipe::planner
