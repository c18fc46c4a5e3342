// How many GPUs: the best plan on clusters of several sizes, and which size meets a deadline or a budget, or is cheapest. The
// search for a plan is the caller's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/run_quantities.hpp"
#include "costmodel/run_cost/run_cost.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe::planner {

// The key that varies the size of a cluster, and the devices that one more of it brings.
struct SizeKey {
  const char* key;
  int devices = 1;
};

// InputError: nodes of several kinds, which no single key counts.
SizeKey size_key(const Scenario& scenario);

enum class SizeObjective { Step, Cost, Energy };

// What is known of a size once its plan was searched.
struct TriedSize {
  int nodes = 0;  // the key that varies: of the cluster, or devices of one without nodes
  int gpus = 0;
  std::string plan;    // in a line; empty: none
  std::string reason;  // why there is none
  double step_time_s = 0;
  double samples = 0;  // of a step
  std::optional<RunCost> run;
  bool has_plan() const { return run.has_value(); }
};

struct SizeRequest {
  std::vector<int> sizes;                  // in `nodes`; empty: doubled from 1 on, and halved between the last two
  int most = 1;                            // of those not listed, the largest
  std::optional<Duration> deadline;        // for the whole run
  std::optional<Money> budget;             // for the whole run
  std::optional<SizeObjective> objective;  // not stated: the smallest size within the limits

  bool limited() const { return deadline || budget; }
};

// "", or what is above the limits: "too late", "over the budget", "no plan".
std::string verdict(const SizeRequest& request, const TriedSize& size);

// Tries sizes until the answer is known. Doubling ends at the first size within the limits, at one over the budget (a larger one
// trains faster and costs more), or at `most`; then sizes between it and the one before are tried. In ascending order.
std::vector<TriedSize> try_sizes(const SizeRequest& request, const std::function<TriedSize(int nodes)>& try_size);

// The best of them: within the limits the smallest, or the least by the objective. -1: none.
int best_size(const SizeRequest& request, const std::vector<TriedSize>& tried);

// Before anything is tried. InputError: no price or no power where money or energy are asked for, amounts in two currencies.
void check_request(const SizeRequest& request, const RunRequest& run);
// After: InputError where the deadline is shorter than a step of every size.
void check_deadline(const SizeRequest& request, const std::vector<TriedSize>& tried);

std::string to_table(const SizeRequest& request, const std::vector<TriedSize>& tried, int width);
std::string to_json(const SizeRequest& request, const std::vector<TriedSize>& tried);  // panpipe-sizes/1

}  // namespace panpipe::planner
