#include "planner/piper/suffix_costs.hpp"

#include <algorithm>
#include <tuple>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::planner::piper {
namespace {

// Without `one_choice_per_stage` mode 0 is the fastest; with it, mode is whether the stage recomputes (a layer that has only one
// way takes it in both).
const Choice& choice_in_mode(const std::vector<Choice>& choices, bool one_mode, bool recompute) {
  const Choice* best = nullptr;
  const auto key = [&](const Choice& c) {
    return std::tuple(one_mode && c.recompute != recompute, c.time, c.in_flight, c.fixed);
  };
  for (const Choice& choice : choices)
    if (!best || key(choice) < key(*best)) best = &choice;
  return *best;
}

template <class Value>
double least(const std::vector<Choice>& choices, Value value) {
  double result = kInfinity;
  for (const Choice& choice : choices) result = std::min(result, value(choice));
  return result;
}

bool same_but_time_and_memory(const std::vector<Choice>& choices) {
  for (const Choice& c : choices)
    if (c.parameters != choices.front().parameters || c.receive != choices.front().receive || c.send != choices.front().send)
      return false;
  return true;
}

}  // namespace

SuffixCosts::SuffixCosts(const PlanningProblem& problem, const Suffixes& suffixes)
    : problem_(&problem),
      suffixes_(&suffixes),
      incidence_(problem),
      data_degrees_(data_degrees_of(problem)),
      memory_left_(problem.memory - problem.recompute_reserve),
      most_in_flight_(std::min(problem.devices, problem.microbatches)),
      degrees_(problem.degrees.size()),
      front_(problem, suffixes),
      tables_(problem.degrees.size() * at(most_in_flight_ + 1)) {
  const auto least_time = [&](int layer, bool device) {
    double time = kInfinity;
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& choice : problem.layers[layer].choices[g])
        time = std::min(time, choice.time * (device ? problem.degrees[g] : 1));
    return time;
  };
  device_time_ = suffixes.sums([&](int layer) { return least_time(layer, true); });
  replica_time_ = suffixes.sums([&](int layer) { return least_time(layer, false); });
  for (std::size_t g = 0; g < degrees_.size(); ++g) prepare_degree(g);
  prepare_cuts();
}

void SuffixCosts::prepare_degree(std::size_t g) {
  Degree& degree = degrees_[g];
  degree.rows.resize(suffixes_->size());
  for (std::size_t set = 1; set < suffixes_->size(); ++set) {
    Row& row = degree.rows[set];
    row = degree.rows[suffixes_->parent(set)];
    const auto& choices = problem_->layers[suffixes_->added(set)].choices[g];
    if (choices.empty()) {
      ++row.missing;
      continue;
    }
    for (const int mode : {0, 1}) {
      const Choice& choice = choice_in_mode(choices, problem_->one_choice_per_stage, mode == 1);
      row.time[mode] += choice.time;
      row.in_flight[mode] += choice.in_flight;
      row.fixed[mode] += choice.fixed;
    }
    row.parameters += least(choices, [](const Choice& c) { return c.parameters; });
  }
  for (const Layer& layer : problem_->layers) degree.alike &= same_but_time_and_memory(layer.choices[g]);
  prepare_edges(g);
}

void SuffixCosts::prepare_edges(std::size_t g) {
  Degree& degree = degrees_[g];
  degree.enter.assign(problem_->edges.size(), 0);
  degree.leave.assign(problem_->edges.size(), 0);
  for (std::size_t layer = 0; layer < problem_->layers.size(); ++layer) {
    const auto& choices = problem_->layers[layer].choices[g];
    if (choices.empty()) continue;
    const auto seconds = [&](int e, std::size_t k, std::vector<double> Choice::*bytes) {
      return 2 * (problem_->edges[e].bytes + least(choices, [&](const Choice& c) { return extra(c.*bytes, k); })) /
             problem_->bandwidth;
    };
    const auto &into = incidence_.into[layer], &out_of = incidence_.out_of[layer];
    for (std::size_t k = 0; k < into.size(); ++k) degree.enter[into[k]] = seconds(into[k], k, &Choice::receive);
    for (std::size_t k = 0; k < out_of.size(); ++k) degree.leave[out_of[k]] = seconds(out_of[k], k, &Choice::send);
  }
}

void SuffixCosts::prepare_cuts() {
  std::vector<int> charged;
  for (std::size_t e = 0; e < problem_->edges.size(); ++e)
    if (std::any_of(degrees_.begin(), degrees_.end(), [&](const Degree& d) { return d.enter[e] > 0 || d.leave[e] > 0; }))
      charged.push_back(static_cast<int>(e));
  cut_begin_.reserve(suffixes_->size() + 1);
  for (std::size_t set = 0; set < suffixes_->size(); ++set) {
    cut_begin_.push_back(static_cast<std::uint32_t>(cut_edges_.size()));
    for (const int e : charged)
      if (suffixes_->has(set, problem_->edges[e].to) && !suffixes_->has(set, problem_->edges[e].from))
        cut_edges_.push_back(static_cast<std::uint32_t>(e));
  }
  cut_begin_.push_back(static_cast<std::uint32_t>(cut_edges_.size()));
}

double SuffixCosts::communication(const Cut& cut) const {
  const Degree& degree = degrees_[cut.degree];
  double seconds = 0;
  for (std::uint32_t i = cut_begin_[cut.outer]; i < cut_begin_[cut.outer + 1]; ++i)
    if (!suffixes_->has(cut.inner, problem_->edges[cut_edges_[i]].to)) seconds += degree.enter[cut_edges_[i]];
  for (std::uint32_t i = cut_begin_[cut.inner]; i < cut_begin_[cut.inner + 1]; ++i)
    if (suffixes_->has(cut.outer, problem_->edges[cut_edges_[i]].from)) seconds += degree.leave[cut_edges_[i]];
  return seconds;
}

StageBase SuffixCosts::base(const Cut& cut, double enough) const {
  const Row &outer = row(cut.degree, cut.outer), &inner = row(cut.degree, cut.inner);
  const double time = outer.time[0] - inner.time[0];
  if (outer.missing != inner.missing || time > enough) return {};
  const double parameters = outer.parameters - inner.parameters;
  return {true, time + communication(cut), 4 * parameters / (problem_->bandwidth * problem_->microbatches)};
}

double SuffixCosts::bound(const Cut& cut, const Tables& tables, double enough) const {
  double best = 0;
  for (std::size_t k = 0; k < tables.prices.size() && best <= enough; ++k)
    best = std::max(best, tables.sums.priced(cut.outer, cut.inner, k) - tables.prices[k] * memory_left_);
  return best;
}

double SuffixCosts::load(const Cut& cut, const StageBase& base, int data, int in_flight, double limit) const {
  const double spread = (data - 1) * base.reduction;
  double load = (base.time + spread) / data;
  if (load > limit) return load;
  const Row &outer = row(cut.degree, cut.outer), &inner = row(cut.degree, cut.inner);
  const auto fits = [&](int mode) {
    return (outer.in_flight[mode] - inner.in_flight[mode]) * in_flight + (outer.fixed[mode] - inner.fixed[mode]) <=
           problem_->memory - (mode == 1 ? problem_->recompute_reserve : 0);
  };
  const bool alike = degrees_[cut.degree].alike;
  if (alike && fits(0)) return load;
  const double border = base.time - (outer.time[0] - inner.time[0]);
  if (alike && problem_->one_choice_per_stage)
    return fits(1) ? (outer.time[1] - inner.time[1] + border + spread) / data : kInfinity;
  const Tables& table = tables(cut.degree, in_flight);
  if (table.sums.memory(cut.outer, cut.inner) > memory_left_) return kInfinity;
  load = (bound(cut, table, limit * data - border - spread) + border + spread) / data;
  if (load > limit && !problem_->one_choice_per_stage) return load;
  return (choice_time(cut, data, in_flight) + border + spread) / data;
}

// The exact choice is the same for every data degree unless the choices differ in what they transfer.
double SuffixCosts::choice_time(const Cut& cut, int data, int in_flight) const {
  const std::tuple key(cut.outer, cut.inner, cut.degree, in_flight, degrees_[cut.degree].alike ? 0 : data);
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (const auto known = chosen_.find(key); known != chosen_.end()) return known->second;
  }
  const Picked picked = choose(cut, data, in_flight);
  const std::lock_guard<std::mutex> guard(lock_);
  return chosen_.emplace(key, picked.fits ? picked.time : kInfinity).first->second;
}

}  // namespace panpipe::planner::piper
