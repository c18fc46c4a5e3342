// Cuts and schedule together. Every member of the family gets a bound over all its cuts; in the order of these bounds the members
// are searched, until those that are left cannot be better than what was found.
#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/base/error.hpp"
#include "costmodel/base/quantity_text.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/partition.hpp"
#include "planner/candidate.hpp"
#include "planner/methods.hpp"
#include "planner/pfeife/cut_search.hpp"
#include "planner/pfeife/family.hpp"

namespace panpipe::planner {
namespace {

constexpr int kFewRounds = 24, kManyRounds = 120;          // of the bound's game: for every member, and for those that stay
constexpr double kMostEnumerated = 1e8;                    // cuts of a member: then bounds leave few enough to try all others
constexpr std::int64_t kSteps = 1'000'000;                 // of the enumeration, per member: a few milliseconds
constexpr double kProofTolerance = 1e-9;                   // times are rounded to picoseconds, bounds are not
constexpr int kStagesPerRank = 3, kMostStagesPerRank = 8;  // tried always; and while more are better

// Ways to cut so many units into stages.
double number_of_cuts(int units, int stages) {
  double ways = 1;
  for (int k = 1; k < stages; ++k) ways *= static_cast<double>(units - k) / k;
  return ways;
}

struct Searched {
  Member member;
  std::unique_ptr<CutSearch> search;
  double bound() const { return search->bound(); }
};

class PfeifeSearch {
 public:
  PfeifeSearch(const Experiment& experiment, const SearchOptions& options)
      : experiment_(experiment), options_(options), space_(experiment) {}

  Answer run() {
    read_partition();
    const int stated = std::max(1, experiment_.scenario.parallel.virtual_stages);
    if (!chooses_stages(experiment_.scenario)) {
      add_members(stated);
      search_members();
    } else {
      for (int stages = 1; stages <= kStagesPerRank; ++stages) add_members(stages);
      search_members();
      for (int stages = kStagesPerRank + 1; stages <= kMostStagesPerRank && best_stages() == stages - 1; ++stages) {
        add_members(stages);
        search_members();
      }
    }
    search_prefetch_vectors();
    return answer();
  }

 private:
  void read_partition();
  void add_members(int stages_per_rank);
  void add_member(Member member);
  void search_members();
  void search_member(Searched& searched);
  void search_prefetch_vectors();
  Cuts start_for(int stages) const;
  int best_stages() const { return best_index_ < 0 ? 0 : stages_of(best_index_) / space_.ranks(); }
  int stages_of(int index) const { return searched_[static_cast<std::size_t>(index)].search->evaluator().stages(); }
  void note_best(std::size_t index);
  void tell() const;
  bool stopped() const { return options_.stopped(); }

  Answer answer();
  Candidate candidate(Searched& searched) const;
  std::string why_nothing_fits() const;
  void add_notes(Answer& answer) const;

  const Experiment& experiment_;
  const SearchOptions& options_;
  SearchSpace space_;
  std::optional<Cuts> stated_cuts_;
  std::vector<Searched> searched_;
  std::size_t next_ = 0;  // members before it were searched
  CutCounts counts_;
  double best_ = CutSearch::kNone;
  int best_index_ = -1;
  std::map<int, Cuts> good_cuts_;  // by number of stages: the best found for any schedule
  std::vector<std::string> illegal_, absent_;
  int excluded_members_ = 0, repeated_ = 0;
};

void PfeifeSearch::read_partition() {
  if (experiment_.scenario.partition.empty()) return;
  std::vector<PartitionUnit> units;
  for (const UnitCost& unit : experiment_.model.units(space_.type_of_rank(0)).units)
    units.push_back({unit.name, unit.block, Duration(0)});
  const std::vector<std::string>& starts = experiment_.scenario.partition;
  try {
    stated_cuts_ = panpipe::stated_cuts(units, starts, static_cast<int>(starts.size()) + 1);
  } catch (const InputError& error) {
    throw placed(error, experiment_.scenario, "partition");
  }
}

Cuts PfeifeSearch::start_for(int stages) const {
  if (stated_cuts_) return *stated_cuts_;
  const StageCosts& costs = space_.stages();
  Sums both = costs.floor(ActionKind::F, space_.type_of_rank(0));
  const Sums& backward = costs.floor(ActionKind::B, space_.type_of_rank(0));
  for (std::size_t u = 0; u < both.size(); ++u) both[u] += backward[u];
  return even_cuts(both, stages);
}

void PfeifeSearch::add_member(Member member) {
  const int stages = member.schedule.stages;
  if (stages > space_.units() || member.schedule.chains.size() != 1 || stopped()) {
    if (stages > space_.units())
      absent_.push_back(fmt::format("{}: {} stages, but the model has {} units", to_text(member), stages, space_.units()));
    return;
  }
  if (stated_cuts_ && static_cast<int>(stated_cuts_->size()) + 1 != stages) return;
  const auto same = std::find_if(searched_.begin(), searched_.end(),
                                 [&](const Searched& known) { return known.member.schedule.order == member.schedule.order; });
  if (same != searched_.end()) {
    ++repeated_;
    return;
  }
  Searched searched{std::move(member), nullptr};
  try {
    searched.search = std::make_unique<CutSearch>(
        space_, searched.member.schedule, start_for(stages), [this] { return stopped(); }, counts_);
  } catch (const NoAnswer&) {
    illegal_.push_back(to_text(searched.member));
    ++counts_.excluded;
    return;
  }
  searched_.push_back(std::move(searched));
}

void PfeifeSearch::add_members(int stages_per_rank) {
  const bool splits = space_.costs().workload(space_.type_of_rank(0)).split_backward;
  Family family = family_of(experiment_.scenario, stages_per_rank, splits);
  absent_.insert(absent_.end(), family.absent.begin(), family.absent.end());
  for (Member& member : family.members) add_member(std::move(member));
}

void PfeifeSearch::note_best(std::size_t index) {
  const CutSearch& search = *searched_[index].search;
  if (search.best() == CutSearch::kNone) return;
  const int stages = stages_of(static_cast<int>(index));
  const auto good = good_cuts_.find(stages);
  if (good == good_cuts_.end() || search.best() < best_) good_cuts_[stages] = search.cuts();
  if (search.best() >= best_) return;
  best_ = search.best();
  best_index_ = static_cast<int>(index);
}

void PfeifeSearch::tell() const {
  if (!options_.progress) return;
  SearchState state;
  state.evaluated = counts_.evaluated;
  state.pruned = counts_.excluded;
  state.best = best_ == CutSearch::kNone ? 0 : best_ * 1e-12;
  options_.progress(state);
}

void PfeifeSearch::search_member(Searched& searched) {
  CutSearch& search = *searched.search;
  const int stages = search.evaluator().stages();
  const auto good = good_cuts_.find(stages);
  if (stages > 1 && !stated_cuts_) search.tighten(kManyRounds, best_);
  if (search.bound() >= best_) return;
  search.improve(good != good_cuts_.end() ? good->second : start_for(stages));
  if (stages == 1 || stated_cuts_) return;
  const double enough = std::min(best_, search.best());
  if (search.bound() < enough && number_of_cuts(space_.units(), stages) <= kMostEnumerated) search.enumerate(enough, kSteps);
}

void PfeifeSearch::search_members() {
  for (std::size_t i = next_; i < searched_.size(); ++i) {
    if (!stated_cuts_) searched_[i].search->tighten(kFewRounds, best_);
    note_best(i);
    tell();
  }
  std::vector<std::size_t> order(searched_.size() - next_);
  std::iota(order.begin(), order.end(), next_);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return searched_[a].search->best() < searched_[b].search->best(); });
  for (const std::size_t i : order) {
    if (stopped()) break;
    if (searched_[i].bound() >= best_) {
      ++excluded_members_;
      ++counts_.excluded;
      continue;
    }
    search_member(searched_[i]);
    note_best(i);
    tell();
  }
  next_ = searched_.size();
}

// How far each rank runs ahead by itself, from the best member of the family: the published parameter is one number for all.
void PfeifeSearch::search_prefetch_vectors() {
  if (best_index_ < 0 || space_.ranks() < 3 || !is_open(experiment_.scenario, "schedule.prefetch")) return;
  const Member start = searched_[static_cast<std::size_t>(best_index_)].member;
  if (start.name != "pfeife") return;
  std::vector<int> ahead;
  const int prefetch = static_cast<int>(parse_integer(start.options.at("prefetch")).value.value_or(0));
  for (int rank = 0; rank < space_.ranks(); ++rank) ahead.push_back(std::min(space_.ranks() - 1 - rank, prefetch));
  for (int rank = 0; rank + 1 < space_.ranks(); ++rank) {
    for (const int change : {1, -1}) {
      std::vector<int> changed = ahead;
      changed[static_cast<std::size_t>(rank)] += change;
      if (changed[static_cast<std::size_t>(rank)] < 0 || stopped()) continue;
      Member member = start;
      member.options["prefetch"] = fmt::format("{}", fmt::join(changed, ","));
      member.schedule = make_schedule("pfeife", space_.ranks(), experiment_.scenario.microbatches, member.options);
      const std::size_t before = searched_.size();
      add_member(std::move(member));
      if (searched_.size() == before) continue;
      const double old_best = best_;
      search_members();
      if (best_ < old_best) ahead = changed;
    }
  }
}

Candidate PfeifeSearch::candidate(Searched& searched) const {
  Candidate result;
  CutSearch& search = *searched.search;
  auto plan = std::make_shared<Plan>(search.evaluator().plan(search.cuts()));
  const TaskGraph graph = lower(space_.scenario(), *plan, space_.costs());
  result.metrics = figures_of(estimate(graph));
  if (options_.simulate) result.simulated = figures_of(options_.simulate(graph, space_.scenario().cluster));
  result.stages = planner::stages_of(*plan, space_.costs().workload(space_.type_of_rank(0)));
  std::string cuts;
  for (const int cut : search.cuts()) cuts += fmt::format("{}{}", cuts.empty() ? "" : ", ", cut);
  result.schedule = searched.member.name;
  for (const auto& option : searched.member.options) result.schedule_options.push_back(option);
  result.summary = fmt::format("{}; cut at {}", to_text(searched.member), cuts.empty() ? "nothing" : cuts);
  std::string text = "{name: " + searched.member.name;
  for (const auto& [key, value] : searched.member.options)
    text += fmt::format(", {}: {}", key, value.find(',') == std::string::npos ? value : "\"" + value + "\"");
  if (experiment_.scenario.schedule.csv.empty()) result.settings.emplace_back("schedule", text + "}");
  result.settings.emplace_back("partition", "[" + cuts + "]");
  result.plan = std::move(plan);
  return result;
}

std::string PfeifeSearch::why_nothing_fits() const {
  if (searched_.empty()) {
    if (!illegal_.empty()) return fmt::format("no schedule can finish: {} orders itself into a cycle", illegal_.front());
    return absent_.empty() ? "no schedule that may be chosen has as many stages as the partition" : absent_.front();
  }
  CutSearch* nearest = nullptr;
  for (const Searched& searched : searched_)
    if (nearest == nullptr || searched.search->nearest_share() < nearest->nearest_share()) nearest = searched.search.get();
  if (nearest->nearest().empty() && nearest->evaluator().stages() > 1) return "interrupted before a plan was found that fits";
  int rank = 0;
  Bytes peak(0);
  const double share = nearest->evaluator().memory_share(nearest->nearest(), &rank, &peak);
  const Bytes limit(static_cast<std::int64_t>(static_cast<double>(peak.base()) / share));
  return fmt::format(
      "memory is in the way: the plan that comes nearest needs {} on rank {}, {} more than the {} that a device may fill",
      to_text(peak), rank, to_text(peak - limit), to_text(limit));
}

void PfeifeSearch::add_notes(Answer& answer) const {
  const int units = space_.units();
  const auto& graph = experiment_.workload.graph;
  answer.notes.push_back(
      graph ? fmt::format("cuts: {} places between {} movable units of {} operators; the operators of a unit stay together, "
                          "because views and in-place results of one are used by the next",
                          units - 1, units, graph->operators.size())
            : fmt::format("cuts: {} places between {} measured layers", units - 1, units));
  answer.notes.push_back(fmt::format(
      "schedules: {} that can finish, {} of them excluded by a bound over all their cuts; {} more are the same orders "
      "under other names; {} cannot finish{}",
      searched_.size(), excluded_members_, repeated_, illegal_.size(),
      illegal_.empty() ? "" : " (" + illegal_.front() + (illegal_.size() > 1 ? ", ...)" : ")")));
  for (const std::string& text : absent_) answer.notes.push_back("not tried: " + text);
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
  for (Searched* searched : found) answer.candidates.push_back(candidate(*searched));
  const auto time = [](const Candidate& c) { return c.metrics.front().second; };
  std::stable_sort(answer.candidates.begin(), answer.candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return time(a) < time(b); });
  answer.search.evaluated = counts_.evaluated;
  answer.search.pruned = counts_.excluded;
  const bool sound = space_.crossings().is_connected() && space_.stages().exact();
  if (answer.candidates.empty()) {
    answer.reason = why_nothing_fits();
  } else {
    answer.search.best = time(answer.candidates.front());
    answer.search.lower_bound = sound ? std::min(bound * 1e-12, answer.search.best) : 0;
    answer.search.proved_optimal = sound && !answer.interrupted && bound >= best_ * (1 - kProofTolerance);
  }
  add_notes(answer);
  return answer;
}

}  // namespace

Answer search_pfeife(const Experiment& experiment, const SearchOptions& options) {
  return PfeifeSearch(experiment, options).run();
}

}  // namespace panpipe::planner
