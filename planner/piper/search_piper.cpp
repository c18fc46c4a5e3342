// --method piper: stages x data x tensor x recompute per stage, with a proof; and the best of the plans that engines can run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/option_fault.hpp"
#include "base/text/quantity_text.hpp"
#include "planner/methods.hpp"
#include "planner/piper/candidates.hpp"
#include "planner/piper/solve.hpp"

namespace panpipe::planner {
namespace {

using namespace piper;

Objective objective_named(const std::string& name) {
  if (name.empty() || name == "time_per_sample") return Objective::TimePerSample;
  if (name == "step") return Objective::Step;
  throw unknown_choice("objective", name, {"time_per_sample", "step"});
}

const char* metric_of(Objective objective) { return objective == Objective::Step ? "synchronous_step_time" : "time_per_sample"; }

class Search {
 public:
  Search(const Experiment& experiment, const SearchOptions& options)
      : experiment_(experiment),
        options_(options),
        objective_(objective_named(options.objective)),
        posed_(pose(experiment, objective_)) {}

  Answer answer() {
    answer_.method = Method::Piper;
    answer_.objective = metric_of(objective_);
    answer_.notes = posed_.notes;
    const Solution best = solve(posed_.problem, true);
    answer_.interrupted = best.interrupted;
    answer_.search = {best.counts.evaluated, best.counts.pruned, best.objective, best.lower_bound, best.proved};
    answer_.reason = best.stages.empty() && best.interrupted ? "stopped before a plan was found" : best.reason;
    if (!best.stages.empty()) add_candidates(best);
    return answer_;
  }

 private:
  Solution solve(const PlanningProblem& problem, bool reported) const {
    SolveOptions options;
    options.threads = options_.threads;
    options.stop = options_.stop;
    if (reported && options_.progress)
      options.progress = [this](double best, double bound, const Counts& counts) {
        options_.progress({counts.evaluated, counts.pruned, best, bound, false});
      };
    return objective_ == Objective::Step ? least_step(problem, options) : least_load(problem, options);
  }

  void add_candidates(const Solution& best) {
    Candidate first = candidate_of(posed_.problem, best.stages);
    const std::string reason = add_plan(experiment_, posed_.problem, best.stages, first);
    if (!reason.empty()) answer_.notes.push_back("the best plan is no plan file: " + reason);
    const bool runnable = first.plan != nullptr;
    answer_.candidates.push_back(std::move(first));
    if (answer_.candidates.size() < options_.candidates) add_uniform(best, runnable);
  }

  // Adds the best plan for every pair of degrees with these in all stages and recompute of whole stages, which the engines can
  // run.
  void add_uniform(const Solution& best, bool known) {
    std::vector<std::pair<PlanningProblem, Solution>> found;
    const std::vector<int> data_degrees = data_degrees_of(posed_.problem);
    for (std::size_t g = 0; g < posed_.problem.degrees.size(); ++g)
      for (const int data : data_degrees) {
        if (options_.stopped()) continue;
        PlanningProblem one = as_engines_run(posed_.problem, g);
        one.least_data = one.most_data = data;
        Solution solution = solve(one, false);
        if (!solution.stages.empty()) found.emplace_back(std::move(one), std::move(solution));
      }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.second.objective < b.second.objective; });
    for (const auto& [problem, solution] : found) {
      if (answer_.candidates.size() >= options_.candidates) break;
      if (known && same(solution.stages, best.stages)) continue;
      Candidate candidate = candidate_of(problem, solution.stages);
      if (const std::string reason = add_plan(experiment_, problem, solution.stages, candidate); !reason.empty())
        answer_.notes.push_back(fmt::format("{}: {}", candidate.summary, reason));
      answer_.candidates.push_back(std::move(candidate));
    }
    answer_.notes.push_back(fmt::format(
        "after the best come the best with the same degrees in all stages and recompute of whole stages, which engines "
        "can run: {} of {} pairs of degrees have one",
        found.size(), posed_.problem.degrees.size() * data_degrees.size()));
  }

  // Stages that recompute none of their layers and stages that recompute all, as two ways at one degree, each by the first
  // profile of a layer. A layer that has none of a kind takes the other.
  static PlanningProblem as_engines_run(const PlanningProblem& problem, std::size_t degree) {
    PlanningProblem one = problem;
    one.contiguous = true;
    one.degrees.assign(2, problem.degrees[degree]);
    for (Layer& layer : one.layers) {
      const std::vector<Choice> choices = std::move(layer.choices[degree]);
      layer.choices.assign(2, {});
      for (const bool recompute : {false, true}) {
        const auto first =
            std::find_if(choices.begin(), choices.end(), [&](const Choice& choice) { return choice.recompute == recompute; });
        if (!choices.empty()) layer.choices[recompute ? 1 : 0] = {first == choices.end() ? choices.front() : *first};
      }
    }
    return one;
  }

  static bool same(const std::vector<StageChoice>& a, const std::vector<StageChoice>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const StageChoice& x, const StageChoice& y) {
      return x.layers == y.layers && x.data == y.data && x.tensor == y.tensor;
    });
  }

  const Experiment& experiment_;
  const SearchOptions& options_;
  Objective objective_;
  Posed posed_;
  Answer answer_;
};

}  // namespace

Answer search_piper(const Experiment& experiment, const SearchOptions& options) { return Search(experiment, options).answer(); }

}  // namespace panpipe::planner
