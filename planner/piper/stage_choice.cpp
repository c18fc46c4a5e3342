// The tables behind the bounds, and the exact choice of profiles of one stage.
#include <algorithm>
#include <tuple>

#include "base/error.hpp"
#include "base/index.hpp"
#include "planner/piper/suffix_costs.hpp"

namespace panpipe::planner::piper {
namespace {

// The limit of the bounds' tables, for any number of suffixes and of microbatches in flight.
constexpr double kTableBytes = 64e6;
constexpr std::size_t kMostPrices = 16, kFewestPrices = 3;

}  // namespace

const SuffixCosts::Tables& SuffixCosts::tables(std::size_t degree, int in_flight) const {
  Tables& tables = tables_[degree * at(most_in_flight_ + 1) + at(in_flight)];
  std::call_once(tables.made, [&] { make_tables(degree, in_flight, tables); });
  return tables;
}

void SuffixCosts::make_tables(std::size_t degree, int in_flight, Tables& made) const {
  for (const Layer& layer : problem_->layers) {
    Options options;
    for (std::size_t c = 0; c < layer.choices[degree].size(); ++c) {
      const Choice& choice = layer.choices[degree][c];
      options.push_back({choice.time, choice.in_flight * in_flight + choice.fixed, static_cast<int>(c)});
    }
    made.options.push_back(undominated(std::move(options)));
  }
  const double room = kTableBytes / (8.0 * static_cast<double>(suffixes_->size()) * most_in_flight_);
  const std::size_t count = std::clamp(static_cast<std::size_t>(room), kFewestPrices, kMostPrices);
  std::vector<double> shares;
  for (std::size_t k = 0; k < count; ++k) shares.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(count));
  made.prices = prices_at(made.options, shares);
  made.sums = PricedSums(*suffixes_, made.options, made.prices);
}

// The costs of a layer's choices for this stage: choices that transfer more at its border, or reduce more, take longer by that.
Options SuffixCosts::options_at_border(const Cut& cut, int layer, int data, int in_flight) const {
  const auto& choices = problem_->layers[layer].choices[cut.degree];
  const Degree& degree = degrees_[cut.degree];
  const auto &into = incidence_.into[layer], &out_of = incidence_.out_of[layer];
  const auto inside = [&](int other) { return suffixes_->has(cut.outer, other) && !suffixes_->has(cut.inner, other); };
  const auto beyond = [&](int e, const std::vector<double>& bytes, std::size_t k, double counted) {
    return 2 * (problem_->edges[e].bytes + (bytes.empty() ? 0 : bytes[k])) / problem_->bandwidth - counted;
  };
  double fewest = kInfinity;
  for (const Choice& choice : choices) fewest = std::min(fewest, choice.parameters);
  Options options;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    const Choice& choice = choices[c];
    double time = choice.time + (data - 1) * 4 * (choice.parameters - fewest) / (problem_->bandwidth * problem_->microbatches);
    for (std::size_t k = 0; k < into.size(); ++k)
      if (!inside(problem_->edges[into[k]].from)) time += beyond(into[k], choice.receive, k, degree.enter[into[k]]);
    for (std::size_t k = 0; k < out_of.size(); ++k)
      if (!inside(problem_->edges[out_of[k]].to)) time += beyond(out_of[k], choice.send, k, degree.leave[out_of[k]]);
    options.push_back({time, choice.in_flight * in_flight + choice.fixed, static_cast<int>(c)});
  }
  return options;
}

// All of the stage's layers recompute, or none (a layer that has only one way takes that): the faster of the two that fits.
Picked SuffixCosts::choose_mode(const std::vector<int>& layers, std::size_t degree, const std::vector<Options>& options) const {
  Picked best;
  for (const bool recompute : {false, true}) {
    Picked picked{true, 0, {}};
    double memory = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto& choices = problem_->layers[layers[i]].choices[degree];
      const auto key = [&](const Option& o) { return std::tuple(choices[o.choice].recompute != recompute, o.time, o.memory); };
      const Option& taken = *std::min_element(options[i].begin(), options[i].end(),
                                              [&](const Option& a, const Option& b) { return key(a) < key(b); });
      memory += taken.memory;
      picked.time += taken.time;
      picked.choices.push_back(taken.choice);
    }
    picked.fits = memory <= (recompute ? memory_left_ : problem_->memory);
    if (picked.fits && (!best.fits || picked.time < best.time)) best = picked;
  }
  return best;
}

Picked SuffixCosts::choose(const Cut& cut, int data, int in_flight) const {
  const std::vector<int> layers = suffixes_->difference(cut.outer, cut.inner);
  std::vector<Options> at_border;
  if (problem_->one_choice_per_stage || !degrees_[cut.degree].alike)
    for (const int layer : layers) at_border.push_back(options_at_border(cut, layer, data, in_flight));
  if (problem_->one_choice_per_stage) return choose_mode(layers, cut.degree, at_border);
  std::vector<const Options*> options;
  for (Options& list : at_border) options.push_back(&(list = undominated(std::move(list))));
  if (at_border.empty())
    for (const int layer : layers) options.push_back(&tables(cut.degree, in_flight).options[layer]);
  // All layers at their fastest recompute nothing; whatever else is chosen recomputes something.
  double fastest = 0;
  for (const Options* layer : options) fastest += layer->front().memory;
  return least_time(options, fastest <= problem_->memory ? problem_->memory : memory_left_);
}

StageChoice SuffixCosts::stage(const Cut& cut, int data, int in_flight) const {
  const Picked picked = choose(cut, data, in_flight);
  PANPIPE_CHECK(picked.fits, "a stage that was found does not fit");
  StageChoice stage;
  stage.layers = suffixes_->difference(cut.outer, cut.inner);
  stage.data = data;
  stage.tensor = problem_->degrees[cut.degree];
  stage.choice = picked.choices;
  return stage;
}

}  // namespace panpipe::planner::piper
