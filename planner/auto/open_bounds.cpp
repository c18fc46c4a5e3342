#include "planner/auto/open_bounds.hpp"

#include <algorithm>

#include "planner/auto/order_replay.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kPerRound = 4;          // estimated after each round of the enumeration: they exclude what follows
constexpr std::size_t kReplayed = 512;        // orders replayed at a time
constexpr std::size_t kEstimatedAtOnce = 16;  // does not depend on the number of threads, so the answer does not either
constexpr std::size_t kMostEstimated = 640;
constexpr std::size_t kMostRevisited = 256;  // microbatches of shapes that an extrapolation spoke against

Degrees of_any_micro(Degrees shape) {
  shape.micro = 1;
  return shape;
}

}  // namespace

SearchState OpenBounds::state() const {
  SearchState state;
  state.evaluated = tally().evaluated;
  state.pruned = tally().skipped_slow + tally().skipped_shape;
  state.best = plans_.empty() ? 0 : plans_.incumbent();
  return state;
}

double OpenBounds::least_open() const {
  return std::min(open_.empty() ? kInfinite : open_.front().bound, enumeration_.dropped());
}

void OpenBounds::report() {
  if (!common_.options.progress) return;
  SearchState now = state();
  now.lower_bound = open_.empty() ? 0 : std::min(open_.front().bound, now.best > 0 ? now.best : kInfinite);
  common_.options.progress(now);
}

void OpenBounds::sweep_all() {
  // Where there are many shapes, a shape is priced once for all numbers of devices.
  const bool rounds = rounds_of(space_, 1).size() > 1;
  const auto sweeps = rounds ? std::vector<std::vector<bool>>{{true, false}} : std::vector<std::vector<bool>>{{true}, {false}};
  for (const std::vector<bool>& wholes : sweeps) {
    std::map<Degrees, End> ended;
    bool of_use = true;
    for (const int micro : space_.micro) {
      if (common_.stopped()) break;
      if (sweep(micro, wholes, rounds, ended)) continue;
      if (of_use) plans_.account.largest_micro = micro;
      of_use = false;
      if (!rounds) break;
    }
  }
  // Stopped before anything was estimated: the best bounds so far may yet give a plan.
  if (common_.stopped() && plans_.empty()) estimate_first(kPerRound);
}

// False where larger microbatches are of no use: they take no less room, and their work is the same. Shapes of which that is
// known are left out; those of which it is only likely are looked at again.
bool OpenBounds::sweep(int micro, const std::vector<bool>& wholes, bool by_shape, std::map<Degrees, End>& ended) {
  Tally all;
  std::size_t tried = 0;
  for (std::vector<Degrees>& shapes : rounds_of(space_, micro)) {
    if (common_.stopped()) return true;
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
      const std::vector<Tally> tallies = enumeration_.run_round(round, whole, whole != wholes.back(), plans_.incumbent());
      for (std::size_t s = 0; s < sums.size(); ++s) sums[s].add(tallies[s]);
      merge(enumeration_.take());
      if (common_.stopped()) return true;
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

void OpenBounds::note_least(const Degrees& shape, const Tally& tally) {
  double& least = least_bounds_.try_emplace(shape, kInfinite).first->second;
  least = std::min(least, tally.least_bound);
}

void OpenBounds::revisit() {
  if (left_out_.empty() || common_.stopped()) return;
  std::stable_sort(left_out_.begin(), left_out_.end(), [&](const Degrees& a, const Degrees& b) {
    return last_bounds_[of_any_micro(a)].bound < last_bounds_[of_any_micro(b)].bound;
  });
  const std::size_t count = std::min(left_out_.size(), kMostRevisited);
  std::size_t first = 0;
  for (; first < count && !common_.stopped(); first += kShapesOfRound) {
    const auto begin = left_out_.begin() + static_cast<std::ptrdiff_t>(first);
    Enumeration::Round round({begin, begin + static_cast<std::ptrdiff_t>(std::min(kShapesOfRound, count - first))});
    for (const bool whole : {true, false}) {
      const std::vector<Tally> tallies = enumeration_.run_round(round, whole, whole, plans_.incumbent());
      for (std::size_t s = 0; s < tallies.size(); ++s) note_least(round.shapes[s], tallies[s]);
    }
    merge(enumeration_.take());
  }
  left_out_.erase(left_out_.begin(), left_out_.begin() + static_cast<std::ptrdiff_t>(std::min(first, count)));
  refine();
}

// Whether larger microbatches of a shape are of use. Surely not where it is not possible, or fits nowhere. Likely not where the
// gain between two microbatches is too small: most of what a microbatch costs apart from its samples (launches, latencies) falls
// as 1/micro, which shows what is left to gain. Products below their full rate, and the bubble, need not follow that.
OpenBounds::End OpenBounds::end_of(const Tally& tally, const LeastBound& before, int micro) const {
  if (tally.skipped_shape > 0) return End::Surely;
  if (tally.evaluated + tally.skipped_slow == 0) return End::No;
  if (tally.evaluated == tally.without_room) return End::Surely;
  if (before.bound == kInfinite) return End::No;
  const double gain = std::max(0.0, before.bound - tally.least_bound);
  return tally.least_bound - gain * before.micro / (micro - before.micro) >= plans_.incumbent() ? End::Likely : End::No;
}

void OpenBounds::merge(std::vector<Priced> found) {
  std::vector<Priced> all;
  all.reserve(open_.size() + found.size());
  std::merge(open_.begin(), open_.end(), found.begin(), found.end(), std::back_inserter(all));
  open_ = std::move(all);
}

// Takes the first of the open ones; those that prove too slow go.
void OpenBounds::estimate_first(std::size_t count) {
  const auto end = std::find_if(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(std::min(count, open_.size())),
                                [&](const Priced& one) { return one.bound >= plans_.incumbent(); });
  std::vector<Priced> chosen(open_.begin(), end);
  open_.erase(open_.begin(), end);
  // Where nothing has fitted yet, also those that need the least memory.
  const auto smaller = [](const Priced& x, const Priced& y) { return x.memory != y.memory ? x.memory < y.memory : x < y; };
  for (std::size_t i = 0; plans_.empty() && plans_.account.estimated > 0 && i < count && !open_.empty(); ++i) {
    const auto least = std::min_element(open_.begin(), open_.end(), smaller);
    chosen.push_back(*least);
    open_.erase(least);
  }
  plans_.estimate(chosen);
  drop_slow();
}

void OpenBounds::drop_slow() {
  const auto slow = std::lower_bound(open_.begin(), open_.end(), plans_.incumbent(),
                                     [](const Priced& a, double limit) { return a.bound < limit; });
  plans_.account.excluded += open_.end() - slow;
  open_.erase(slow, open_.end());
}

void OpenBounds::refine() {
  while (!open_.empty() && open_.front().bound < plans_.incumbent() && !common_.stopped()) {
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
void OpenBounds::sharpen() {
  for (;;) {
    const std::size_t first = std::min(kEstimatedAtOnce, open_.size());
    const auto end = open_.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::all_of(open_.begin(), end, [](const Priced& one) { return one.replayed; })) return;
    const auto head_end = open_.begin() + static_cast<std::ptrdiff_t>(std::min(kReplayed, open_.size()));
    const auto known = std::stable_partition(open_.begin(), head_end, [](const Priced& one) { return one.replayed; });
    std::vector<Priced> head(known, head_end);
    open_.erase(known, head_end);
    plans_.account.replayed += replay_orders(head, common_);
    std::sort(head.begin(), head.end());
    merge(std::move(head));
  }
}

// Shapes that have none below it are known.
std::vector<Priced> OpenBounds::all_below(double limit, double& dropped) {
  Enumeration again(common_);
  for (const int micro : space_.micro) {
    for (std::vector<Degrees>& shapes : rounds_of(space_, micro)) {
      std::erase_if(shapes, [&](const Degrees& shape) {
        const auto known = least_bounds_.find(shape);
        return known == least_bounds_.end() || known->second >= limit;
      });
      Enumeration::Round round(std::move(shapes));
      for (const bool whole : {true, false})
        if (!common_.stopped()) again.run_round(round, whole, whole, limit);
    }
  }
  dropped = again.dropped();
  std::vector<Priced> all = again.take();
  const auto head_end = all.begin() + static_cast<std::ptrdiff_t>(std::min(kReplayed, all.size()));
  std::vector<Priced> head(all.begin(), head_end);
  all.erase(all.begin(), head_end);
  plans_.account.replayed += replay_orders(head, common_);
  all.insert(all.end(), head.begin(), head.end());
  return all;
}

}  // namespace panpipe::planner
