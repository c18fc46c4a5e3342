#include "planner/piper/suffix_costs.hpp"

#include <algorithm>
#include <tuple>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::planner::piper {
namespace {

constexpr std::size_t kMostBases = 400000;  // 10 MB

template <class Value>
double least(const std::vector<Choice>& choices, Value value) {
  double result = kInfinity;
  for (const Choice& choice : choices) result = std::min(result, value(choice));
  return result;
}

bool same_but_time_and_memory(const std::vector<Choice>& choices) {
  return std::all_of(choices.begin(), choices.end(), [&](const Choice& c) {
    const Choice& first = choices.front();
    return c.parameters == first.parameters && c.receive == first.receive && c.send == first.send;
  });
}

}  // namespace

SuffixCosts::SuffixCosts(const PlanningProblem& problem, const Suffixes& suffixes)
    : problem_(&problem),
      suffixes_(&suffixes),
      incidence_(problem),
      data_degrees_(data_degrees_of(problem)),
      memory_left_(problem.memory - problem.recompute_reserve),
      most_in_flight_(std::min(problem.devices, problem.microbatches)),
      ways_(problem.degrees.size()),
      front_(problem, suffixes),
      tables_(ways_.size() * at(most_in_flight_ + 1)) {
  const auto least_time = [&](int layer, bool device) {
    double time = kInfinity;
    for (std::size_t g = 0; g < problem.degrees.size(); ++g)
      for (const Choice& choice : problem.layers[layer].choices[g])
        time = std::min(time, choice.time * (device ? problem.degrees[g] : 1));
    return time;
  };
  device_time_ = suffixes.sums([&](int layer) { return least_time(layer, true); });
  replica_time_ = suffixes.sums([&](int layer) { return least_time(layer, false); });
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    for (const Layer& layer : problem.layers) ways_[way].alike = ways_[way].alike && same_but_time_and_memory(layer.choices[way]);
    prepare_rows(way);
    prepare_edges(way);
  }
  prepare_cuts();
  prepare_bases();
}

void SuffixCosts::prepare_rows(std::size_t way) {
  std::vector<Row>& rows = ways_[way].rows;
  rows.resize(suffixes_->size());
  for (std::size_t set = 1; set < suffixes_->size(); ++set) {
    Row& row = rows[set] = rows[suffixes_->parent(set)];
    const std::vector<Choice>& choices = problem_->layers[suffixes_->added(set)].choices[way];
    if (choices.empty()) {
      ++row.missing;
      continue;
    }
    const Choice& fastest = *std::min_element(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
      return std::tuple(a.time, a.in_flight, a.fixed) < std::tuple(b.time, b.in_flight, b.fixed);
    });
    row.time += fastest.time;
    row.in_flight += fastest.in_flight;
    row.fixed += fastest.fixed;
    row.recomputing += fastest.recompute ? 1 : 0;
    row.parameters += least(choices, [](const Choice& c) { return c.parameters; });
  }
}

void SuffixCosts::prepare_edges(std::size_t of) {
  Way& way = ways_[of];
  way.enter.assign(problem_->edges.size(), 0);
  way.leave.assign(problem_->edges.size(), 0);
  for (std::size_t layer = 0; layer < problem_->layers.size(); ++layer) {
    const std::vector<Choice>& choices = problem_->layers[layer].choices[of];
    if (choices.empty()) continue;
    const auto seconds = [&](int e, std::size_t k, std::vector<double> Choice::*bytes) {
      return 2 * (problem_->edges[e].bytes + least(choices, [&](const Choice& c) { return extra(c.*bytes, k); })) /
             problem_->bandwidth;
    };
    const auto &into = incidence_.into[layer], &out_of = incidence_.out_of[layer];
    for (std::size_t k = 0; k < into.size(); ++k) way.enter[into[k]] = seconds(into[k], k, &Choice::receive);
    for (std::size_t k = 0; k < out_of.size(); ++k) way.leave[out_of[k]] = seconds(out_of[k], k, &Choice::send);
  }
}

void SuffixCosts::prepare_cuts() {
  std::vector<int> charged;
  for (std::size_t e = 0; e < problem_->edges.size(); ++e)
    if (std::any_of(ways_.begin(), ways_.end(), [&](const Way& way) { return way.enter[e] > 0 || way.leave[e] > 0; }))
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

// With few suffixes the bases of all cuts are made before the searches, which ask for each many times.
void SuffixCosts::prepare_bases() {
  const std::size_t sets = suffixes_->size();
  if (sets * sets * ways_.size() > kMostBases) return;
  std::vector<StageBase> bases(sets * sets * ways_.size());
  for (std::size_t outer = 1; outer < sets; ++outer)
    for (std::size_t inner = 0; inner < outer; ++inner)
      for (std::size_t way = 0; way < ways_.size() && suffixes_->within(inner, outer); ++way)
        bases[place({outer, inner, way})] = make_base({outer, inner, way}, kInfinity);
  bases_ = std::move(bases);
}

double SuffixCosts::communication(const Cut& cut) const {
  const Way& way = ways_[cut.way];
  double seconds = 0;
  for (std::uint32_t i = cut_begin_[cut.outer]; i < cut_begin_[cut.outer + 1]; ++i)
    if (!suffixes_->has(cut.inner, problem_->edges[cut_edges_[i]].to)) seconds += way.enter[cut_edges_[i]];
  for (std::uint32_t i = cut_begin_[cut.inner]; i < cut_begin_[cut.inner + 1]; ++i)
    if (suffixes_->has(cut.outer, problem_->edges[cut_edges_[i]].from)) seconds += way.leave[cut_edges_[i]];
  return seconds;
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
  const Row &outer = ways_[cut.way].rows[cut.outer], &inner = ways_[cut.way].rows[cut.inner];
  const double memory = (outer.in_flight - inner.in_flight) * in_flight + (outer.fixed - inner.fixed);
  const bool recomputes = outer.recomputing > inner.recomputing;
  if (ways_[cut.way].alike && memory <= (recomputes ? memory_left_ : problem_->memory)) return load;
  const double border = base.time - (outer.time - inner.time);
  const Tables& table = tables(cut.way, in_flight);
  if (table.sums.memory(cut.outer, cut.inner) > memory_left_) return kInfinity;
  load = (bound(cut, table, limit * data - border - spread) + border + spread) / data;
  if (load > limit) return load;
  return (choice_time(cut, data, in_flight) + border + spread) / data;
}

// The exact choice is the same for every data degree unless the choices differ in what they transfer.
double SuffixCosts::choice_time(const Cut& cut, int data, int in_flight) const {
  Tables& table = tables(cut.way, in_flight);
  const std::uint64_t key =
      (std::uint64_t{cut.outer} * suffixes_->size() + cut.inner) * at(most_in_flight_ + 1) + at(ways_[cut.way].alike ? 0 : data);
  {
    const std::lock_guard<std::mutex> guard(table.lock);
    if (const auto known = table.chosen.find(key); known != table.chosen.end()) return known->second;
  }
  const Picked picked = choose(cut, data, in_flight);
  const std::lock_guard<std::mutex> guard(table.lock);
  return table.chosen.emplace(key, picked.fits ? picked.time : kInfinity).first->second;
}

}  // namespace panpipe::planner::piper
