// The plans that a search has estimated and that fit, and the threads that estimate them. Internal to this folder.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "base/parallel_for.hpp"
#include "planner/auto/finalists.hpp"

namespace panpipe::planner {

// How the work is divided among devices; and, with how the axes lie on them, which devices exchange what.
inline auto split_of(const Degrees& d) { return std::tuple(d.tensor, d.pipeline, d.data, d.context, d.expert, d.expert_tensor); }
inline auto layout_of(const Configuration& c) { return std::tuple(split_of(c), c.zero, c.order); }
inline auto degrees_key(const Configuration& c) {
  return std::tuple(c.of_graph(), c.pipeline, c.data, c.zero, c.recompute, c.order);
}
constexpr std::size_t kOfOneShape = 4;  // configurations of the same degrees that are looked at together
// Best bound first, without those from `enough` (seconds) on, and at most kOfOneShape of the same degrees.
std::vector<Priced> most_promising(std::vector<Priced> all, double enough);

class PlansFound {
 public:
  // `enough`: seconds; only faster plans are of use.
  PlansFound(Common& common, double enough);
  Common& common() const { return common_; }

  bool empty() const { return best_.empty(); }
  std::vector<Exact>& all() { return best_; }  // fastest first
  const std::vector<Exact>& all() const { return best_; }
  const std::vector<Priced>& too_large() const { return too_large_; }  // estimated, not fitting
  Evaluator& evaluator() { return *evaluators_.front(); }
  double incumbent() const { return empty() ? enough_ : std::min(enough_, best_.front().step_time); }
  double roomy_incumbent() const;  // the least step of a plan that leaves the error of the memory model free
  double least_simulated() const;
  Exact* known(const Configuration& configuration);         // nullptr: not among them
  std::vector<Exact*> first_of_degrees(std::size_t count);  // the best plans, each of other degrees

  void sort() { std::sort(best_.begin(), best_.end()); }
  // Estimates these; the best are kept.
  void estimate(const std::vector<Priced>& chosen);
  void keep_more(std::size_t plans) { kept_ += plans; }
  // Adds what make(i, evaluator) gives for every i below `count`, where it is usable. Returns how many.
  template <class Make>
  std::size_t add(std::size_t count, Make make) {
    std::vector<Exact> made(count);
    in_parallel(count, [&](std::size_t i, Evaluator& evaluator) { made[i] = make(i, evaluator); });
    std::erase_if(made, [](const Exact& one) { return !one.usable(); });
    take(made);
    return made.size();
  }
  void take(std::vector<Exact>& plans);
  template <class Work>
  void in_parallel(std::size_t count, Work work) {
    parallel_for(count, static_cast<int>(evaluators_.size()),
                 [&](std::size_t i, std::size_t worker) { work(i, *evaluators_[worker]); });
  }
  // With contention.
  void simulate_all(const std::vector<Exact*>& chosen);

  Account account;

 private:
  Common& common_;
  const double enough_;
  std::size_t kept_ = 64;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  std::vector<Exact> best_;
  std::vector<Priced> too_large_;
};

}  // namespace panpipe::planner
