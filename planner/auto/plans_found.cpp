#include "planner/auto/plans_found.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace panpipe::planner {

std::vector<Priced> most_promising(std::vector<Priced> all, double enough) {
  std::sort(all.begin(), all.end());
  std::map<decltype(degrees_key({})), std::size_t> of_degrees;
  std::erase_if(
      all, [&](const Priced& one) { return one.bound >= enough || ++of_degrees[degrees_key(one.configuration)] > kOfOneShape; });
  return all;
}

PlansFound::PlansFound(Common& common, double enough) : common_(common), enough_(enough) {
  for (int i = 0; i < std::max(1, common.options.threads); ++i) evaluators_.push_back(std::make_unique<Evaluator>(common));
}

double PlansFound::roomy_incumbent() const {
  const auto roomy =
      std::find_if(best_.begin(), best_.end(), [&](const Exact& one) { return one.memory <= common_.limit_with_room; });
  return roomy == best_.end() ? enough_ : std::min(enough_, roomy->step_time);
}

double PlansFound::least_simulated() const {
  double least = kInfinite;
  for (const Exact& one : best_) least = std::min(least, one.simulated_step());
  return least;
}

Exact* PlansFound::known(const Configuration& configuration) {
  const auto found =
      std::find_if(best_.begin(), best_.end(), [&](const Exact& one) { return one.configuration == configuration; });
  return found == best_.end() ? nullptr : &*found;
}

std::vector<Exact*> PlansFound::first_of_degrees(std::size_t count) {
  std::vector<Exact*> chosen;
  for (Exact& one : best_) {
    const auto alike = [&](const Exact* other) { return degrees_key(one.configuration) == degrees_key(other->configuration); };
    if (chosen.size() < count && std::none_of(chosen.begin(), chosen.end(), alike)) chosen.push_back(&one);
  }
  return chosen;
}

void PlansFound::take(std::vector<Exact>& plans) {
  std::move(plans.begin(), plans.end(), std::back_inserter(best_));
  sort();
}

void PlansFound::estimate(const std::vector<Priced>& chosen) {
  std::vector<Exact> results(chosen.size());
  in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
    if (common_.stopped() && (i > 0 || !best_.empty())) return;
    results[i] = evaluator.evaluate(chosen[i].configuration);
    results[i].bound = chosen[i].bound;
  });
  for (Exact& result : results) {
    if (result.step_time == 0 && result.fault.empty()) continue;  // stopped before
    ++account.estimated;
    if (result.usable()) {
      best_.push_back(std::move(result));
    } else if (result.step_time > 0) {
      if (account.without_room++ == 0 || result.memory < account.least_memory) account.least_memory = result.memory;
      too_large_.push_back({result.bound, result.memory, result.configuration, false});
    } else {
      if (account.without_order++ == 0) account.fault = result.fault;
    }
  }
  sort();
  if (best_.size() > kept_) best_.resize(kept_);
}

// Plans that do not fit under contention go, as long as others do.
void PlansFound::simulate_all(const std::vector<Exact*>& chosen) {
  in_parallel(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
    if (!common_.stopped()) simulate(*chosen[i], evaluator);
  });
  account.simulated += static_cast<std::size_t>(
      std::count_if(chosen.begin(), chosen.end(), [](const Exact* one) { return !one->simulated.empty(); }));
  const auto fits = [](const Exact& one) { return one.fits; };
  if (std::any_of(best_.begin(), best_.end(), fits)) std::erase_if(best_, std::not_fn(fits));
}

}  // namespace panpipe::planner
