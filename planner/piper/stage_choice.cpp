// The tables behind the bounds, and the exact choice of profiles of one stage.
#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "planner/piper/suffix_costs.hpp"

namespace panpipe::planner::piper {
namespace {

// The limit of the bounds' tables, for any number of suffixes and of microbatches in flight.
constexpr double kTableBytes = 64e6;
constexpr std::size_t kMostPrices = 16, kFewestPrices = 3;

}  // namespace

SuffixCosts::Tables& SuffixCosts::tables(std::size_t way, int in_flight) const {
  Tables& tables = tables_[way * at(most_in_flight_ + 1) + at(in_flight)];
  std::call_once(tables.made, [&] { make_tables(way, in_flight, tables); });
  return tables;
}

void SuffixCosts::make_tables(std::size_t way, int in_flight, Tables& made) const {
  for (const Layer& layer : problem_->layers) {
    Options options;
    options.reserve(layer.choices[way].size());
    for (const Choice& choice : layer.choices[way])
      options.push_back({choice.time, choice.in_flight * in_flight + choice.fixed, &choice});
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
  const Way& way = ways_[cut.way];
  const auto &into = incidence_.into[layer], &out_of = incidence_.out_of[layer];
  const auto inside = [&](int other) { return suffixes_->has(cut.outer, other) && !suffixes_->has(cut.inner, other); };
  const auto beyond = [&](int e, const std::vector<double>& bytes, std::size_t k, double counted) {
    return 2 * (problem_->edges[e].bytes + (bytes.empty() ? 0 : bytes[k])) / problem_->bandwidth - counted;
  };
  const std::vector<Choice>& choices = problem_->layers[layer].choices[cut.way];
  double fewest = kInfinity;
  for (const Choice& choice : choices) fewest = std::min(fewest, choice.parameters);
  Options options;
  for (const Choice& choice : choices) {
    double time = choice.time + (data - 1) * 4 * (choice.parameters - fewest) / (problem_->bandwidth * problem_->microbatches);
    for (std::size_t k = 0; k < into.size(); ++k)
      if (!inside(problem_->edges[into[k]].from)) time += beyond(into[k], choice.receive, k, way.enter[into[k]]);
    for (std::size_t k = 0; k < out_of.size(); ++k)
      if (!inside(problem_->edges[out_of[k]].to)) time += beyond(out_of[k], choice.send, k, way.leave[out_of[k]]);
    options.push_back({time, choice.in_flight * in_flight + choice.fixed, &choice});
  }
  return undominated(std::move(options));
}

// Where all layers at their fastest recompute nothing, whatever else is chosen recomputes something.
Picked SuffixCosts::choose(const Cut& cut, int data, int in_flight) const {
  const std::vector<int> layers = suffixes_->difference(cut.outer, cut.inner);
  std::vector<Options> at_border;
  if (!ways_[cut.way].alike)
    for (const int layer : layers) at_border.push_back(options_at_border(cut, layer, data, in_flight));
  std::vector<const Options*> options;
  options.reserve(layers.size());
  double fastest = 0;
  bool recomputes = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    options.push_back(at_border.empty() ? &tables(cut.way, in_flight).options[layers[i]] : &at_border[i]);
    fastest += options[i]->front().memory;
    recomputes = recomputes || options[i]->front().choice->recompute;
  }
  return least_time(options, !recomputes && fastest <= problem_->memory ? problem_->memory : memory_left_);
}

StageChoice SuffixCosts::stage(const Cut& cut, int data, int in_flight) const {
  const Picked picked = choose(cut, data, in_flight);
  PANPIPE_CHECK(picked.fits, "a stage that was found does not fit");
  StageChoice stage;
  stage.layers = suffixes_->difference(cut.outer, cut.inner);
  stage.data = data;
  stage.tensor = tensor(cut.way);
  stage.way = static_cast<int>(cut.way);
  for (std::size_t i = 0; i < stage.layers.size(); ++i)
    stage.choice.push_back(static_cast<int>(picked.choices[i] - choices_of(*problem_, stage, i).data()));
  return stage;
}

}  // namespace panpipe::planner::piper
