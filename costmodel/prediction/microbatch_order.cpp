#include "costmodel/prediction/microbatch_order.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/index.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/idle_lowering.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe {
namespace {

constexpr int kMostEstimates = 400;
constexpr std::size_t kClasses = 4;  // of length: 24 orders of them

class OrderSearch {
 public:
  OrderSearch(const Scenario& scenario, const CostModel& model, const Plan& plan)
      : scenario_(scenario), costs_(model, plan), plan_(plan) {
    best_ = judge(plan.lengths);
    best_lengths_ = plan.lengths;
  }

  std::vector<int> run() {
    try_classes();
    exchange();
    return best_lengths_;
  }

 private:
  // Bytes that are missing, then the step.
  using Verdict = std::pair<double, double>;

  Verdict judge(const std::vector<int>& lengths) {
    ++estimates_;
    plan_.lengths = lengths;
    const TaskGraph graph = lower_for_idle_links(scenario_, plan_, costs_);
    const TaskTimes times = estimate_times(graph);
    double missing = 0;
    for (const DeviceTimeline& device : memory_of_ranks(graph, times))
      if (device.limit > Bytes(0)) missing = std::max(missing, static_cast<double>((device.peak - device.limit).base()));
    return {missing, to_duration(step_time(graph, times)).base()};
  }

  bool consider(const std::vector<int>& lengths) {
    if (estimates_ >= kMostEstimates) return false;
    const Verdict verdict = judge(lengths);
    if (!(verdict < best_)) return false;
    best_ = verdict;
    best_lengths_ = lengths;
    return true;
  }

  // Shapes are numbered from the longest: classes are runs of them.
  void try_classes() {
    const std::size_t shapes = scenario_.lengths.shapes.size(), classes = std::min(kClasses, shapes);
    std::vector<std::size_t> order(classes);
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
      std::vector<int> lengths = plan_.lengths;
      for (auto first = lengths.begin(); first != lengths.end(); first += plan_.microbatches)
        std::stable_sort(first, first + plan_.microbatches,
                         [&](int a, int b) { return order[at(a) * classes / shapes] < order[at(b) * classes / shapes]; });
      consider(lengths);
    } while (std::next_permutation(order.begin(), order.end()));
  }

  // Pairs of one replica in an order that does not repeat itself, from the beginning after each that helps.
  void exchange() {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t a = 0; a < best_lengths_.size(); ++a)
      for (std::size_t b = a + 1; b < best_lengths_.size() && b / at(plan_.microbatches) == a / at(plan_.microbatches); ++b)
        pairs.emplace_back(a, b);
    std::mt19937 random(1);
    for (std::size_t k = pairs.size(); k > 1; --k) std::swap(pairs[k - 1], pairs[random() % k]);
    for (std::size_t tried = 0, next = 0; tried < pairs.size() && estimates_ < kMostEstimates; ++tried) {
      const auto [a, b] = pairs[next++ % pairs.size()];
      if (best_lengths_[a] == best_lengths_[b]) continue;
      std::vector<int> lengths = best_lengths_;
      std::swap(lengths[a], lengths[b]);
      if (consider(lengths)) tried = 0;
    }
  }

  const Scenario& scenario_;
  const ModelCosts costs_;
  Plan plan_;
  int estimates_ = 0;
  Verdict best_;
  std::vector<int> best_lengths_;
};

}  // namespace

bool searches_order(const Scenario& scenario) {
  if (scenario.lengths.shapes.size() < 2 || !scenario.document) return false;
  const Node* batch = scenario.document->find("batch");
  const Node* order = batch != nullptr ? batch->find("order") : nullptr;
  return order != nullptr && order->text == "searched";
}

void order_microbatches(const Scenario& scenario, const CostModel& model, Plan& plan) {
  plan.lengths = OrderSearch(scenario, model, plan).run();
}

}  // namespace panpipe
