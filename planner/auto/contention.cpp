#include "planner/auto/contention.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace panpipe::planner {
namespace {

// Plans that are simulated: the least number, and the largest number while an estimate is below the least simulated step. They do
// not depend on the number of shown plans, so that the number shown does not change the best plan.
constexpr std::size_t kSimulated = 8, kMostSimulated = 32;
constexpr std::int64_t kMostContended = 96;  // estimated because contention may choose them
constexpr std::size_t kAtOnce = 4;           // simulated before the next are chosen
constexpr double kRounding = 1 + 1e-9;

using Layout = decltype(layout_of({}));

class Contenders {
 public:
  Contenders(std::vector<Priced> pool, PlansFound& plans) : plans_(plans), pool_(std::move(pool)) {
    std::erase_if(pool_, [&](const Priced& one) { return plans.known(one.configuration) != nullptr; });
    for (const Exact& one : plans.all())
      if (one.simulated.empty()) pool_.push_back({one.step_time, one.memory, one.configuration, true});
  }

  // Estimates and simulates the next ones. False: there are none left, or enough were looked at.
  bool simulate_next() {
    const double least = plans_.least_simulated();
    std::erase_if(pool_, [&](const Priced& one) { return one.bound >= least; });
    const std::vector<Priced> chosen = take_next();
    if (chosen.empty()) return false;
    std::vector<Priced> to_estimate;
    for (const Priced& one : chosen)
      if (plans_.known(one.configuration) == nullptr) to_estimate.push_back(one);
    estimated_ += static_cast<std::int64_t>(to_estimate.size());
    if (estimated_ > kMostContended) {
      others_ += static_cast<std::int64_t>(chosen.size());
      return false;
    }
    plans_.estimate(to_estimate);
    std::vector<Exact*> simulated;
    for (const Priced& one : chosen)
      if (Exact* exact = plans_.known(one.configuration); exact != nullptr && exact->step_time < least)
        simulated.push_back(exact);
    plans_.simulate_all(simulated);
    return true;
  }

  // Those with a bound below the least simulated step.
  std::int64_t left() const {
    const double least = plans_.least_simulated();
    return others_ + std::count_if(pool_.begin(), pool_.end(), [&](const Priced& one) { return one.bound < least; });
  }

 private:
  // The numbers of the pool in the order in which its plans are expected to be fast. Sets the layouts of which one is known.
  std::vector<std::size_t> order(std::map<Layout, double>& slowdowns) const {
    for (const Exact& one : plans_.all()) {
      if (one.bound == 0) continue;
      const double slowdown = (one.simulated.empty() ? one.step_time : one.simulated_step()) / one.bound;
      double& least = slowdowns.try_emplace(layout_of(one.configuration), slowdown).first->second;
      least = std::min(least, slowdown);
    }
    std::vector<double> expected;
    for (const Priced& one : pool_) {
      const auto slowdown = slowdowns.find(layout_of(one.configuration));
      expected.push_back(one.bound * (slowdown == slowdowns.end() ? 1 : slowdown->second));
    }
    std::vector<std::size_t> numbers(pool_.size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    std::stable_sort(numbers.begin(), numbers.end(), [&](std::size_t a, std::size_t b) { return expected[a] < expected[b]; });
    return numbers;
  }

  // Takes them out of the pool; counts how many leave it because enough of the same degrees were looked at.
  std::vector<Priced> take_next() {
    std::map<decltype(degrees_key({})), std::size_t> of_degrees;
    for (const Exact& one : plans_.all()) ++of_degrees[degrees_key(one.configuration)];
    std::map<Layout, double> slowdowns;
    std::vector<Priced> chosen;
    std::set<Layout> now;
    std::vector<bool> taken(pool_.size());
    for (const std::size_t i : order(slowdowns)) {
      if (chosen.size() >= std::min(kAtOnce, kMostSimulated - plans_.account.simulated)) break;
      const Layout layout = layout_of(pool_[i].configuration);
      if (slowdowns.count(layout) == 0 && now.count(layout) > 0) continue;  // wait for the first of it
      taken[i] = true;
      const bool fresh = plans_.known(pool_[i].configuration) == nullptr;  // the others are counted
      if (fresh && of_degrees[degrees_key(pool_[i].configuration)]++ >= kOfOneShape) {
        ++others_;
        continue;
      }
      now.insert(layout);
      chosen.push_back(pool_[i]);
    }
    std::erase_if(pool_, [&, i = std::size_t{0}](const Priced&) mutable { return taken[i++]; });
    return chosen;
  }

  PlansFound& plans_;
  std::vector<Priced> pool_;
  std::int64_t others_ = 0, estimated_ = 0;
};

}  // namespace

void simulate_contenders(OpenBounds& bounds, Neighbours& neighbours, PlansFound& plans) {
  const Common& common = plans.common();
  if (plans.empty() || !common.options.simulate) return;
  std::vector<Exact*> first;
  for (Exact& one : plans.all())
    if (first.size() < kSimulated) first.push_back(&one);
  plans.simulate_all(first);
  Account& account = plans.account;
  if (common.stopped() || plans.least_simulated() <= plans.incumbent() * kRounding) return;
  double dropped = kInfinite;
  Contenders contenders(bounds.all_below(plans.least_simulated(), dropped), plans);
  plans.keep_more(static_cast<std::size_t>(kMostContended));
  while (account.simulated < kMostSimulated && !common.stopped() && contenders.simulate_next()) {
  }
  neighbours.polish();
  account.below_simulated = true;
  account.could_be_faster = contenders.left() + (dropped < plans.least_simulated() ? 1 : 0);
}

}  // namespace panpipe::planner
