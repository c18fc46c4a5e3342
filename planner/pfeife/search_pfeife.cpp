// Cuts and schedule together. Every member of the family gets a bound over all its cuts and a first result. The members are
// searched in the order of these results, until the others cannot be better than the best plan.
#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "costmodel/plan/partition.hpp"
#include "planner/methods.hpp"
#include "planner/pfeife/pfeife_search.hpp"
#include "schedule/looped_turns.hpp"

namespace panpipe::planner {
namespace {

constexpr int kFewRounds = 24, kManyRounds = 120;          // of the relaxed problem: for every member, and for those that stay
constexpr double kMostEnumerated = 1e8;                    // cuts of a member: then bounds leave few enough to try all others
constexpr std::int64_t kSteps = 1'000'000;                 // of the enumeration, per member: a few milliseconds
constexpr int kStagesPerRank = 3, kMostStagesPerRank = 8;  // tried always; and while more are better
constexpr std::size_t kFirstWave = 2;                      // members; each later wave has twice as many
constexpr std::size_t kBestImproved = 2;                   // members, after each search of some
constexpr int kMostRaised = 8;                             // waves of two members with the lowest bounds

// Ways to cut so many units into stages.
double number_of_cuts(int units, int stages) {
  double ways = 1;
  for (int k = 1; k < stages; ++k) ways *= static_cast<double>(units - k) / k;
  return ways;
}

}  // namespace

PfeifeSearch::PfeifeSearch(const Experiment& experiment, const SearchOptions& options)
    : experiment_(experiment), options_(options), space_(experiment) {}

Answer PfeifeSearch::run() {
  read_partition();
  const int stated = std::max(1, experiment_.scenario.degrees.virtual_stages);
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
  raise_lowest_bounds();
  return answer();
}

void PfeifeSearch::read_partition() {
  if (experiment_.scenario.partition.empty()) return;
  std::vector<PartitionUnit> units;
  for (const UnitCost& unit : experiment_.model.units(space_.site_of_rank(0)).units)
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
  return even_cuts(space_.stages().work(space_.site_of_rank(0)), stages);
}

void PfeifeSearch::add_member(TriedSchedule member) {
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
  searched_.push_back({std::move(member), nullptr});
}

void PfeifeSearch::add_members(int stages_per_rank) {
  const bool splits = space_.costs().workload(space_.site_of_rank(0)).split_backward;
  TriedSchedules family = tried_schedules(experiment_.scenario, stages_per_rank, splits);
  absent_.insert(absent_.end(), family.absent.begin(), family.absent.end());
  for (TriedSchedule& member : family.members) add_member(std::move(member));
}

// Takes over what a member's search has found.
void PfeifeSearch::note(std::size_t index) {
  const CutSearch& search = *searched_[index].search;
  const int stages = searched_[index].stages();
  space_.add_links(stages, searched_[index].search->evaluator().known_links());
  if (search.best() == CutSearch::kNone) return;
  if (good_cuts_.count(stages) == 0 || search.best() < best_) good_cuts_[stages] = search.cuts();
  if (search.best() >= best_) return;
  best_ = search.best();
  best_index_ = static_cast<int>(index);
}

template <class Body>
void PfeifeSearch::in_parallel(const std::vector<std::size_t>& indices, Body body) {
  parallel_for(indices.size(), options_.threads, [&](std::size_t part, std::size_t worker) {
    Searched& searched = searched_[indices[part]];
    const CutCounts before = searched.search ? searched.search->counts() : CutCounts{};
    body(searched);
    if (searched.search && options_.progress) report(searched, before, worker);
  });
}

void PfeifeSearch::report(const Searched& done, const CutCounts& before, std::size_t worker) {
  const std::lock_guard lock(reported_mutex_);
  reported_.evaluated += done.search->counts().evaluated - before.evaluated;
  reported_.excluded += done.search->counts().excluded - before.excluded;
  reported_best_ = std::min(reported_best_, done.search->best());
  if (worker != 0) return;
  SearchState state;
  state.evaluated = reported_.evaluated;
  state.pruned = reported_.excluded;
  state.best = reported_best_ == CutSearch::kNone ? 0 : reported_best_ * 1e-12;
  options_.progress(state);
}

void PfeifeSearch::search_member(Searched& searched) const {
  CutSearch& search = *searched.search;
  const int stages = searched.stages();
  const auto good = good_cuts_.find(stages);
  if (stages > 1 && !stated_cuts_) search.tighten(kManyRounds, best_);
  if (search.bound() >= best_ && best_ != CutSearch::kNone) return;
  search.improve(good != good_cuts_.end() ? good->second : start_for(stages));
  if (stages == 1 || stated_cuts_) return;
  if (number_of_cuts(space_.units(), stages) > kMostEnumerated) return;
  const double enough = std::min(best_, search.best());
  search.tighten_with_memory(kManyRounds, enough);
  searched.tightened_with_memory = true;
  if (search.bound() < enough) search.enumerate(enough, kSteps);
}

void PfeifeSearch::prepare(std::size_t first) {
  std::vector<std::size_t> all(searched_.size() - first);
  std::iota(all.begin(), all.end(), first);
  in_parallel(all, [this](Searched& searched) {
    try {
      searched.search = std::make_unique<CutSearch>(space_, searched.member.schedule, start_for(searched.stages()),
                                                    [this] { return stopped(); });
    } catch (const NoAnswer&) {
      return;  // waits for itself
    }
    if (!stated_cuts_) searched.search->tighten(kFewRounds, best_);
  });
  for (std::size_t i = first; i < searched_.size(); ++i)
    if (!searched_[i].search) illegal_.push_back(to_text(searched_[i].member));
  std::erase_if(searched_, [](const Searched& searched) { return !searched.search; });
  for (std::size_t i = first; i < searched_.size(); ++i) note(i);
}

void PfeifeSearch::search_wave(const std::vector<std::size_t>& wave) {
  in_parallel(wave, [this](Searched& searched) { search_member(searched); });
  for (const std::size_t i : wave) note(i);
}

std::vector<std::size_t> PfeifeSearch::sorted(std::size_t first, double (CutSearch::*value)() const, std::size_t most) const {
  std::vector<std::size_t> order(searched_.size() - first);
  std::iota(order.begin(), order.end(), first);
  const auto of = [&](std::size_t i) { return (*searched_[i].search.*value)(); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return of(a) < of(b); });
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), most)), order.end());
  return order;
}

void PfeifeSearch::search_members() {
  prepare(next_);
  const std::vector<std::size_t> order = sorted(next_, &CutSearch::best, searched_.size());
  std::size_t most = kFirstWave;
  for (std::size_t done = 0; done < order.size() && !stopped(); most *= 2) {
    std::vector<std::size_t> wave;
    for (; done < order.size() && wave.size() < most; ++done) {
      if (searched_[order[done]].bound() < best_ || best_ == CutSearch::kNone) {
        wave.push_back(order[done]);
      } else {
        ++excluded_members_;
      }
    }
    search_wave(wave);
  }
  next_ = searched_.size();
  if (!stated_cuts_) improve_best();
}

void PfeifeSearch::improve_best() {
  std::vector<std::size_t> best = sorted(0, &CutSearch::best, kBestImproved);
  std::erase_if(best, [&](std::size_t i) { return std::exchange(searched_[i].improved_again, true); });
  in_parallel(best, [](Searched& searched) { searched.search->improve_again(); });
  for (const std::size_t i : best) note(i);
}

// The lowest bound of all members is that of the answer: it alone is worth the time that memory takes.
void PfeifeSearch::raise_lowest_bounds() {
  if (stated_cuts_ || !space_.crossings().is_connected() || !space_.stages().exact()) return;
  for (int wave = 0; wave < kMostRaised && !stopped(); ++wave) {
    std::vector<std::size_t> lowest = sorted(0, &CutSearch::bound, 2);
    if (lowest.empty() || searched_[lowest.front()].bound() >= best_ || searched_[lowest.front()].tightened_with_memory) return;
    std::erase_if(lowest, [&](std::size_t i) {
      return searched_[i].stages() == 1 || std::exchange(searched_[i].tightened_with_memory, true);
    });
    if (lowest.empty()) return;
    in_parallel(lowest, [this](Searched& searched) { searched.search->tighten_with_memory(kManyRounds, best_); });
    for (const std::size_t i : lowest) note(i);
  }
}

// How far each rank runs ahead by itself, from the best member of the family: the published parameter is one number for all.
void PfeifeSearch::search_prefetch_vectors() {
  if (best_index_ < 0 || space_.ranks() < 3 || !is_open(experiment_.scenario, "schedule.prefetch")) return;
  const std::string family = searched_[best_index_].member.name;
  if (family != "pfeife") return;
  for (int best = -1; best != best_index_ && !stopped();) {
    best = best_index_;
    const TriedSchedule start = searched_[best].member;
    const std::vector<int> ahead = forwards_ahead(space_.ranks(), start.options);
    for (std::size_t rank = 0; rank + 1 < ahead.size(); ++rank) {
      for (const int change : {1, -1}) {
        std::vector<int> changed = ahead;
        changed[rank] += change;
        if (changed[rank] < 0) continue;
        TriedSchedule member = start;
        member.options["prefetch"] = fmt::format("{}", fmt::join(changed, ","));
        member.schedule = make_schedule("pfeife", space_.ranks(), experiment_.scenario.degrees.microbatches, member.options);
        add_member(std::move(member));
      }
    }
    search_members();
  }
}

Answer search_pfeife(const Experiment& experiment, const SearchOptions& options) {
  return PfeifeSearch(experiment, options).run();
}

}  // namespace panpipe::planner
