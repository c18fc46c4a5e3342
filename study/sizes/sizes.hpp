// The number of GPUs: finds the best plan on clusters of several sizes, and the size that meets a deadline or a budget, or is
// cheapest. The caller supplies the search for a plan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/run_quantities.hpp"
#include "costmodel/run_cost/run_cost.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe::study {

// The key that varies the size of a cluster, and the number of devices per unit of it.
struct SizeKey {
  const char* key;
  int devices = 1;
};

// Throws InputError for nodes of several kinds, since no single key counts them.
SizeKey size_key(const Scenario& scenario);

enum class SizeObjective { Step, Cost, Energy };

// The result of the search for one size.
struct TriedSize {
  int nodes = 0;  // value of the key: nodes of the cluster, or devices of a cluster without nodes
  int gpus = 0;
  std::string plan;    // one line; empty: none
  std::string reason;  // reason why there is none
  double step_time_s = 0;
  double samples = 0;  // per step
  int idle = 0;        // GPUs that the plan does not use, though they are paid for
  std::optional<RunCost> run;
  bool has_plan() const { return run.has_value(); }
};

struct SizeRequest {
  std::vector<int> sizes;                  // in `nodes`; empty: doubled from 1, then halved between the last two
  int most = 1;                            // largest size tried if `sizes` is empty
  std::optional<Duration> deadline;        // for the whole run
  std::optional<Money> budget;             // for the whole run
  std::optional<SizeObjective> objective;  // absent: the smallest size within the limits

  bool limited() const { return deadline || budget; }
};

// Empty, or the limit that is exceeded: "too late", "over the budget", "no plan".
std::string verdict(const SizeRequest& request, const TriedSize& size);

// Tries sizes until the answer is known. Doubling ends at the first size within the limits, at one over the budget (a larger one
// trains faster and costs more), or at `most`; then the sizes between it and the one before are tried, and those that are left
// without whole nodes that a plan does not use. Ascending.
std::vector<TriedSize> try_sizes(const SizeRequest& request, const std::function<TriedSize(int nodes)>& try_size);

// The best size: the smallest within the limits, or the one with the least objective. -1: none.
int best_size(const SizeRequest& request, const std::vector<TriedSize>& tried);

// Checks the request before any size is tried. Throws InputError if a needed price or power is missing, or for amounts in two
// currencies.
void check_request(const SizeRequest& request, const RunRequest& run);
// Checks the results. Throws InputError if the deadline is shorter than one step on every size.
void check_deadline(const SizeRequest& request, const std::vector<TriedSize>& tried);

std::string to_table(const SizeRequest& request, const std::vector<TriedSize>& tried, int width);
std::string to_json(const SizeRequest& request, const std::vector<TriedSize>& tried);  // panpipe-sizes/1

}  // namespace panpipe::study
