// The answer of a search over cuts and schedules: its best plans, and what was searched.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parallel_for.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/lowering/peak_memory.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "planner/candidate.hpp"
#include "planner/pfeife/pfeife_search.hpp"

namespace panpipe::planner {
namespace {

constexpr double kProofTolerance = 1e-9;  // times are rounded to picoseconds, bounds are not

// "; recompute full on stages 0, 1": where that was searched.
std::string recompute_text(const Plan& plan) {
  std::string text;
  for (const Recompute mode : {Recompute::Selective, Recompute::Full}) {
    std::vector<std::size_t> stages;
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      if (plan.stages[s].recompute == mode) stages.push_back(s);
    if (!stages.empty()) text += fmt::format("; recompute {} on stages {}", name_of(mode), fmt::join(stages, ", "));
  }
  return text;
}

bool recomputes_alike(const Plan& plan) {
  return std::all_of(plan.stages.begin(), plan.stages.end(),
                     [&](const StagePlan& stage) { return stage.recompute == plan.stages.front().recompute; });
}

}  // namespace

Candidate PfeifeSearch::candidate(Searched& searched) const {
  CutSearch& search = *searched.search;
  const auto plan = std::make_shared<const Plan>(search.evaluator().plan(search.cuts(), search.modes()));
  const TaskGraph graph = answered(space_.scenario(), *plan, experiment_.model);
  Candidate result = described(experiment_.model, plan, graph);
  if (options_.simulate) result.simulated = figures_of(predict(graph, space_.scenario(), *plan, options_.simulate));
  const std::string cuts = fmt::format("{}", fmt::join(search.cuts(), ", "));
  result.schedule = searched.member.name;
  result.schedule_options.assign(searched.member.options.begin(), searched.member.options.end());
  result.summary = fmt::format("{}; cut at {}{}", to_text(searched.member), cuts.empty() ? "nothing" : cuts,
                               space_.stages().modes().size() > 1 ? recompute_text(*plan) : "");
  if (experiment_.scenario.schedule.csv.empty())
    result.settings.emplace_back("schedule", schedule_setting(searched.member.name, searched.member.options));
  result.settings.emplace_back("partition", "[" + cuts + "]");
  // One key states the recompute of all stages: the mode that keeps least of those in use.
  if (space_.stages().modes().size() > 1) result.settings.emplace_back("recompute", std::string(name_of(most_recompute(*plan))));
  return result;
}

std::string PfeifeSearch::why_nothing_fits() const {
  if (searched_.empty()) {
    if (!illegal_.empty()) return fmt::format("no schedule can finish: {} orders itself into a cycle", illegal_.front());
    return absent_.empty() ? "no allowed schedule has the partition's number of stages" : absent_.front();
  }
  const auto nearest = std::min_element(searched_.begin(), searched_.end(), [](const Searched& a, const Searched& b) {
    return a.search->nearest().value < b.search->nearest().value;
  });
  CutEvaluator& evaluator = nearest->search->evaluator();
  const CutSearch::Found& found = nearest->search->nearest();
  if (found.cuts.empty() && evaluator.stages() > 1) return "interrupted before a plan was found that fits";
  const std::vector<double> shares = evaluator.memory_shares(found.cuts, found.modes);
  const auto rank = std::max_element(shares.begin(), shares.end()) - shares.begin();
  const PeakMemory fullest = peak_memory(space_.scenario(), evaluator.plan(found.cuts, found.modes), space_.costs())[rank];
  return fmt::format(
      "memory is in the way: the plan that comes nearest needs {} on rank {}, {} more than the {} that a device may fill",
      to_text(fullest.peak), rank, to_text(fullest.peak - fullest.limit), to_text(fullest.limit));
}

void PfeifeSearch::add_notes(Answer& answer) const {
  const int units = space_.units();
  const auto& graph = experiment_.workload.graph;
  answer.notes.push_back(
      graph ? fmt::format("cuts: {} places between {} movable units of {} operators; panpipe check --units says which "
                          "operators a unit holds together, and why",
                          units - 1, units, graph->operators.size())
            : fmt::format("cuts: {} places between {} measured layers", units - 1, units));
  answer.notes.push_back(fmt::format(
      "schedules: {} that can finish, {} of them excluded by a bound over all their cuts; {} more are the same orders "
      "under other names; {} cannot finish{}",
      searched_.size(), excluded_members_, repeated_, illegal_.size(),
      illegal_.empty() ? "" : " (" + illegal_.front() + (illegal_.size() > 1 ? ", ...)" : ")")));
  for (const std::string& text : absent_) answer.notes.push_back("not tried: " + text);
  if (!answer.candidates.empty() && !recomputes_alike(*answer.candidates.front().plan))
    answer.notes.emplace_back(
        "the stages recompute differently, and the scenario's key 'recompute' cannot express that: its settings recompute every "
        "stage as the one that recomputes most; take the plan file (-o FILE, then --plan FILE) for this plan");
  if (!space_.crossings().is_connected())
    answer.notes.emplace_back(
        "no lower bound: some units do not read the unit before them, and the bounds follow a chain of stages");
  if (!space_.stages().exact())
    answer.notes.emplace_back("no lower bound: beside tensor-parallel collectives stage times are sums only approximately");
}

Answer PfeifeSearch::answer() {
  Answer answer;
  answer.method = Method::Pfeife;
  answer.objective = "step_time_s";
  answer.interrupted = stopped();
  std::vector<Searched*> found;
  double bound = best_;
  for (Searched& searched : searched_) {
    if (searched.search->best() != CutSearch::kNone) found.push_back(&searched);
    if (!stated_cuts_) bound = std::min(bound, searched.bound());
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Searched* a, const Searched* b) { return a->search->best() < b->search->best(); });
  if (found.size() > options_.candidates) found.resize(std::max<std::size_t>(1, options_.candidates));
  answer.candidates.resize(found.size());
  parallel_for(found.size(), options_.threads,
               [&](std::size_t part, std::size_t) { answer.candidates[part] = candidate(*found[part]); });
  const auto time = [](const Candidate& c) { return c.metrics.front().second; };
  std::stable_sort(answer.candidates.begin(), answer.candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return time(a) < time(b); });
  CutCounts counts;
  for (const Searched& searched : searched_) counts += searched.search->counts();
  answer.search.evaluated = counts.evaluated;
  answer.search.pruned = counts.excluded + excluded_members_ + static_cast<std::int64_t>(illegal_.size());
  const bool sound = space_.crossings().is_connected() && space_.stages().exact();
  if (answer.candidates.empty()) {
    answer.reason = why_nothing_fits();
  } else {
    answer.search.best = time(answer.candidates.front());
    order_by_room(experiment_.scenario, answer.candidates);
    const bool fastest_first = time(answer.candidates.front()) <= answer.search.best;
    answer.search.lower_bound = sound ? std::min(bound * 1e-12, answer.search.best) : 0;
    answer.search.proved_optimal = sound && fastest_first && !answer.interrupted && bound >= best_ * (1 - kProofTolerance);
  }
  add_notes(answer);
  return answer;
}

}  // namespace panpipe::planner
