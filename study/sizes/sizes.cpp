#include "study/sizes/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/text/run_quantity_text.hpp"

namespace panpipe::study {
namespace {

constexpr int kBetween = 4;  // sizes tried between one that is too small and its double

double measure(SizeObjective objective, const RunCost& run) {
  switch (objective) {
    case SizeObjective::Step:
      return run.time_s;
    case SizeObjective::Cost:
      return run.cost.value_or(std::numeric_limits<double>::infinity());
    case SizeObjective::Energy:
      break;
  }
  return run.energy_kwh.value_or(std::numeric_limits<double>::infinity());
}

bool within(const SizeRequest& request, const TriedSize& size) { return size.has_plan() && verdict(request, size).empty(); }

bool over_budget(const SizeRequest& request, const TriedSize& size) {
  return request.budget && size.has_plan() && size.run->cost.value_or(0) > request.budget->amount;
}

class Trials {
 public:
  Trials(const SizeRequest& request, const std::function<TriedSize(int)>& try_size) : request_(request), try_size_(try_size) {}

  const TriedSize& at(int nodes) {
    const auto place = std::find_if(tried_.begin(), tried_.end(), [&](const TriedSize& size) { return size.nodes >= nodes; });
    if (place != tried_.end() && place->nodes == nodes) return *place;
    return *tried_.insert(place, try_size_(nodes));
  }

  // 1, 2, 4 ... up to `most`, which is tried too. The first within the limits; 0: none.
  int doubled() {
    for (int nodes = 1;; nodes = std::min(2 * nodes, request_.most)) {
      const TriedSize& size = at(nodes);
      const bool found = within(request_, size);
      if (request_.limited() && (found || over_budget(request_, size))) return found ? nodes : 0;
      if (nodes == request_.most) return 0;
    }
  }

  // Between the first size within the limits and the one before it.
  void halved(int within_limits) {
    int low = within_limits / 2, high = within_limits;
    for (int i = 0; i < kBetween && high - low > 1; ++i) {
      const int middle = (low + high) / 2;
      (within(request_, at(middle)) ? high : low) = middle;
    }
  }

  // The smallest within the limits may leave nodes idle: then fewer nodes hold the same plan.
  void without_idle() {
    for (;;) {
      const auto smallest =
          std::find_if(tried_.begin(), tried_.end(), [&](const TriedSize& size) { return within(request_, size); });
      if (smallest == tried_.end() || smallest->nodes == 0) return;
      const int each = smallest->gpus / smallest->nodes, spare = smallest->idle / each;
      if (spare == 0 || spare >= smallest->nodes) return;
      const int fewer = smallest->nodes - spare;
      if (!within(request_, at(fewer))) return;
    }
  }

  std::vector<TriedSize> all() { return std::move(tried_); }

 private:
  const SizeRequest& request_;
  const std::function<TriedSize(int)>& try_size_;
  std::vector<TriedSize> tried_;  // ascending
};

}  // namespace

std::string verdict(const SizeRequest& request, const TriedSize& size) {
  if (!size.has_plan()) return "no plan";
  const bool late = request.deadline && size.run->time_s > request.deadline->base();
  if (late && over_budget(request, size)) return "too late, over the budget";
  if (late) return "too late";
  return over_budget(request, size) ? "over the budget" : "";
}

std::vector<TriedSize> try_sizes(const SizeRequest& request, const std::function<TriedSize(int nodes)>& try_size) {
  Trials trials(request, try_size);
  for (const int nodes : request.sizes) trials.at(nodes);
  if (request.sizes.empty())
    if (const int first = trials.doubled(); first > 1) {
      trials.halved(first);
      trials.without_idle();
    }
  return trials.all();
}

int best_size(const SizeRequest& request, const std::vector<TriedSize>& tried) {
  int best = -1;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (!within(request, tried[i])) continue;
    const bool better = best < 0 || (request.objective &&
                                     measure(*request.objective, *tried[i].run) < measure(*request.objective, *tried[best].run));
    if (better) best = static_cast<int>(i);
  }
  return best;
}

void check_request(const SizeRequest& request, const RunRequest& run) {
  const bool money = request.budget || request.objective == SizeObjective::Cost;
  if (money && run.prices.empty())
    throw option_fault(request.budget ? "budget" : "objective", "costs need a price",
                       "state run.price, as in '2.5 USD', or the name of a price list", code::kMissingKey);
  if (request.budget && request.budget->currency != run.currency)
    throw option_fault("budget", fmt::format("it is in {}, the price in {}: amounts of two currencies do not compare",
                                             request.budget->currency, run.currency));
  if (request.objective == SizeObjective::Energy && !run.power)
    throw option_fault("objective", "energy needs the power of the devices, which is not published for all of them",
                       "state run.power.gpu, as in '400 W'", code::kMissingKey);
}

void check_deadline(const SizeRequest& request, const std::vector<TriedSize>& tried) {
  double least_step = std::numeric_limits<double>::infinity();
  for (const TriedSize& size : tried)
    if (size.has_plan()) least_step = std::min(least_step, size.step_time_s);
  if (!request.deadline || !std::isfinite(least_step) || request.deadline->base() >= least_step) return;
  throw option_fault("deadline", fmt::format("{} is shorter than one step: the shortest takes {}", to_text(*request.deadline),
                                             to_text(Duration(least_step))));
}

SizeKey size_key(const Scenario& scenario) {
  const Cluster& cluster = scenario.cluster;
  if (cluster.given) return {"cluster.devices", 1};
  for (const ClusterNode& node : cluster.node)
    if (node.group != cluster.node.front().group)
      throw InputError("the nodes of this cluster are of several kinds: no single key says how many there are",
                       "a sweep varies any key");
  return {"cluster.nodes", cluster.size() / cluster.nodes};
}

}  // namespace panpipe::study
