#include "planner/piper/knapsack.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/index.hpp"

namespace panpipe::planner::piper {
namespace {

struct State {
  double time = 0, memory = 0;
  std::uint32_t from = 0;
  std::uint32_t option = 0;
};

class KnapsackSearch {
 public:
  KnapsackSearch(const std::vector<const Options*>& layers, double memory) : layers_(layers), memory_(memory) {}

  Picked solve() {
    double fastest_memory = 0, leanest_memory = 0;
    for (const Options* options : layers_) {
      fastest_memory += options->front().memory;
      leanest_memory += options->back().memory;
    }
    if (leanest_memory > memory_) return {};
    picks_.assign(layers_.size(), 0);
    if (fastest_memory <= memory_) return picked();
    start(fastest_memory);
    order_layers();
    run();
    return picked();
  }

 private:
  // The relaxation (hull steps of all layers, cheapest price first, until the rest fits) rounded up, then taken back where there
  // is room: an incumbent.
  void start(double used) {
    std::vector<std::pair<std::size_t, HullStep>> steps;
    steps.reserve(layers_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i)
      for (const HullStep& step : hull_steps(*layers_[i])) steps.emplace_back(i, step);
    // Prices rise along a layer's hull, so that ties are between layers.
    std::stable_sort(steps.begin(), steps.end(),
                     [](const auto& a, const auto& b) { return a.second.price() < b.second.price(); });
    double excess = used - memory_;
    for (const auto& [layer, step] : steps) {
      if (excess <= 0) break;
      excess -= step.memory;
      price_ = step.price();
      picks_[layer] = step.option;
    }
    used = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) used += option(i, picks_[i]).memory;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      while (picks_[i] > 0 && used - option(i, picks_[i]).memory + option(i, picks_[i] - 1).memory <= memory_) {
        used += option(i, picks_[i] - 1).memory - option(i, picks_[i]).memory;
        --picks_[i];
      }
    incumbent_ = used <= memory_ ? total_time() : kInfinity;
  }

  const Option& option(std::size_t layer, int index) const { return (*layers_[layer])[index]; }
  double total_time() const {
    double time = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) time += option(i, picks_[i]).time;
    return time;
  }
  double priced(const Option& o) const { return o.time + price_ * o.memory; }

  // Those whose second-best option is far behind come first: their states do not multiply.
  void order_layers() {
    std::vector<double> gap(layers_.size(), kInfinity), best(layers_.size(), kInfinity);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      for (const Option& o : *layers_[i]) {
        const double cost = priced(o);
        if (cost < best[i]) {
          gap[i] = best[i] - cost;
          best[i] = cost;
        } else {
          gap[i] = std::min(gap[i], cost - best[i]);
        }
      }
    order_.resize(layers_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return gap[a] > gap[b]; });
    rest_priced_.assign(layers_.size() + 1, 0);
    rest_lean_.assign(layers_.size() + 1, 0);
    rest_fast_.assign(layers_.size() + 1, 0);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      rest_priced_[i] = rest_priced_[i + 1] + best[order_[i]];
      rest_lean_[i] = rest_lean_[i + 1] + layers_[order_[i]]->back().memory;
      rest_fast_[i] = rest_fast_[i + 1] + layers_[order_[i]]->front().time;
    }
  }

  // States after so many layers stand behind each other in one list.
  void run() {
    states_.assign(1, State{});
    begin_.assign({0, 1});
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Options& options = *layers_[order_[i]];
      for (std::size_t s = begin_[i]; s < begin_[i + 1]; ++s)
        for (std::size_t o = 0; o < options.size(); ++o) {
          const State state{states_[s].time + options[o].time, states_[s].memory + options[o].memory,
                            static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(o)};
          if (state.memory + rest_lean_[i + 1] > memory_ || state.time + rest_fast_[i + 1] >= incumbent_) continue;
          if (state.time + rest_priced_[i + 1] - price_ * (memory_ - state.memory) >= incumbent_) continue;
          states_.push_back(state);
        }
      keep_undominated(begin_.back());
      begin_.push_back(states_.size());
    }
    take();
  }

  // Applies to the states from `first` on.
  void keep_undominated(std::size_t first) {
    const auto begin = states_.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, states_.end(), [](const State& a, const State& b) {
      return std::tuple(a.memory, a.time, a.from, a.option) < std::tuple(b.memory, b.time, b.from, b.option);
    });
    auto kept = begin;
    for (auto state = begin; state != states_.end(); ++state)
      if (kept == begin || state->time < (kept - 1)->time) *kept++ = *state;
    states_.erase(kept, states_.end());
  }

  // No state at the end: nothing is better than the incumbent.
  void take() {
    if (begin_[order_.size()] == states_.size()) return;
    std::size_t state = states_.size() - 1;  // the fastest, as memory rises time falls
    for (std::size_t i = order_.size(); i-- > 0;) {
      picks_[order_[i]] = static_cast<int>(states_[state].option);
      state = states_[state].from;
    }
  }

  Picked picked() const {
    Picked result{true, total_time(), {}};
    result.choices.reserve(layers_.size());
    for (std::size_t i = 0; i < layers_.size(); ++i) result.choices.push_back(option(i, picks_[i]).choice);
    return result;
  }

  const std::vector<const Options*>& layers_;
  double memory_;
  double price_ = 0, incumbent_ = kInfinity;
  std::vector<int> picks_;
  std::vector<std::size_t> order_;
  std::vector<double> rest_priced_, rest_lean_, rest_fast_;
  std::vector<State> states_;
  std::vector<std::size_t> begin_;  // of the states after so many layers, and the end of the last ones
};

}  // namespace

Options undominated(Options options) {
  std::stable_sort(options.begin(), options.end(),
                   [](const Option& a, const Option& b) { return std::pair(a.time, a.memory) < std::pair(b.time, b.memory); });
  std::size_t kept = 0;
  for (const Option& option : options)
    if (kept == 0 || option.memory < options[kept - 1].memory) options[kept++] = option;
  options.resize(kept);
  return options;
}

std::vector<HullStep> hull_steps(const Options& options) {
  std::vector<HullStep> steps;
  steps.reserve(options.size());
  for (std::size_t i = 1; i < options.size(); ++i) {
    HullStep step{options[i].time - options[i - 1].time, options[i - 1].memory - options[i].memory, static_cast<int>(i)};
    while (!steps.empty() && steps.back().price() >= step.price()) {
      step.time += steps.back().time;
      step.memory += steps.back().memory;
      steps.pop_back();
    }
    steps.push_back(step);
  }
  return steps;
}

std::vector<double> prices_at(const std::vector<Options>& layers, const std::vector<double>& shares) {
  std::vector<HullStep> steps;
  for (const Options& layer : layers)
    for (const HullStep& step : hull_steps(layer)) steps.push_back(step);
  std::sort(steps.begin(), steps.end(), [](const HullStep& a, const HullStep& b) { return a.price() < b.price(); });
  double total = 0, passed = 0;
  for (const HullStep& step : steps) total += step.memory;
  std::vector<double> prices;
  for (const HullStep& step : steps) {
    passed += step.memory;
    if (prices.size() < shares.size() && passed >= total * shares[prices.size()] &&
        (prices.empty() || step.price() > prices.back()))
      prices.push_back(step.price());
  }
  return prices;
}

PricedSums::PricedSums(const Suffixes& suffixes, const std::vector<Options>& layers, const std::vector<double>& prices)
    : width_(prices.size() + 1) {
  std::vector<double> least(layers.size() * width_, 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (std::size_t k = 0; k < width_ && !layers[layer].empty(); ++k) {
      const auto cost = [&](const Option& o) { return k == 0 ? o.memory : o.time + prices[k - 1] * o.memory; };
      double& cheapest = least[layer * width_ + k] = kInfinity;
      for (const Option& option : layers[layer]) cheapest = std::min(cheapest, cost(option));
    }
  rows_.assign(suffixes.size() * width_, 0);
  for (std::size_t set = 1; set < suffixes.size(); ++set) {
    const double *parent = &rows_[suffixes.parent(set) * width_], *added = &least[at(suffixes.added(set)) * width_];
    for (std::size_t k = 0; k < width_; ++k) rows_[set * width_ + k] = parent[k] + added[k];
  }
}

Picked least_time(const std::vector<const Options*>& layers, double memory) { return KnapsackSearch(layers, memory).solve(); }

}  // namespace panpipe::planner::piper
