// --method auto: every configuration in closed form; the best bounds by a replay of their orders; the best of those lowered and
// estimated, until no bound is left below the best plan; then its neighbours, and the finalists with contention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/auto/contention.hpp"
#include "planner/candidate.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {
namespace {

class AutoSearch {
 public:
  AutoSearch(const Experiment& experiment, const SearchOptions& options, double enough)
      : space_(space_of(experiment)), common_(experiment, space_, options), plans_(common_, enough), bounds_(plans_) {}

  double overhead() const { return least_overhead(plans_.all()); }

  Answer run() {
    Neighbours neighbours(plans_);
    bounds_.sweep_all();
    bounds_.refine();
    bounds_.revisit();
    neighbours.cram(bounds_.take_crammed());
    neighbours.fit_cuts(bounds_.take_tight());
    neighbours.move_cuts();
    neighbours.divide();
    neighbours.try_last();
    neighbours.order_microbatches();
    simulate_contenders(bounds_, neighbours, plans_);
    return answer();
  }

 private:
  // Closed forms take the first type's times: on several types they bound nothing.
  bool one_type() const {
    const std::vector<Device>& devices = common_.experiment.scenario.cluster.devices;
    return std::all_of(devices.begin(), devices.end(), [&](const Device& d) { return d.type == devices.front().type; });
  }

  // Returns whether no plan searched in closed form has a faster estimate than the best found. The simulation may choose a plan
  // whose estimate is not the least: then the proof is of another plan. Of families without closed forms the work alone is a
  // bound.
  bool certify(Answer& answer) const {
    SearchState& state = answer.search;
    const std::vector<std::string>& last = plans_.account.tried_last;
    const double open = bounds_.least_open(), least = last.empty() ? open : std::min(open, bounds_.tally().least_work);
    const bool bounded = !answer.interrupted && one_type() && !common_.crowded && bounds_.left_out() == 0;
    state.lower_bound = bounded ? std::min(least, state.best) : 0;
    const bool least_proved = bounded && open >= state.best;
    const bool of_this = least_proved && answer.candidates.front().metrics.front().second <= state.best;
    state.proved_optimal = of_this && least >= state.best;
    if (of_this && !state.proved_optimal) state.proved_but_for = last;
    return least_proved;
  }

  Answer answer() {
    Answer answer;
    answer.objective = "step_time_s";
    answer.interrupted = common_.stopped();
    answer.search = bounds_.state();
    Account& account = plans_.account;
    bool least_proved = false;
    if (!plans_.empty()) {
      add_finalists(plans_.all(), plans_.evaluator(), answer);
      least_proved = certify(answer);
    }
    account.tally = &bounds_.tally();
    account.open = static_cast<std::int64_t>(bounds_.open());
    account.left_out = bounds_.left_out();
    account.by_stage = common_.by_stage;
    account.below_simulated |= account.simulated > 0 && plans_.least_simulated() <= plans_.incumbent() * (1 + 1e-9);
    answer.notes = notes_of(account, space_, answer, least_proved);
    if (plans_.empty())
      answer.reason = answer.interrupted ? "stopped before a plan was found" : reason_of(account, common_.facts);
    return answer;
  }

  const Space space_;
  Common common_;
  PlansFound plans_;
  OpenBounds bounds_;
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
