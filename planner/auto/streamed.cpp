#include "planner/auto/streamed.hpp"

#include <algorithm>
#include <set>

#include "planner/auto/estimated_orders.hpp"
#include "planner/auto/space.hpp"
#include "planner/schedule_choice.hpp"

namespace panpipe::planner {
namespace {

constexpr int kMostMicro = 32;                  // samples: a device holds one microbatch of a slot
constexpr int kMostSlots = 4;                   // of a rank in a round
constexpr int kMostOfOne = 32, kStepOfOne = 4;  // the same where there is one rank

// On one rank a round has all microbatches: weights come as seldom as they can, and nothing waits for other ranks.
void try_orders(const Experiment& variant, EstimatedOrders& tried, const SearchOptions& options) {
  const int ranks = variant.scenario.degrees.pipeline, all = variant.scenario.degrees.microbatches;
  const int most = ranks == 1 ? kMostOfOne : kMostSlots * ranks, step = ranks == 1 ? kStepOfOne : std::max(1, ranks / 4);
  if (!may_choose(variant.scenario, "roundpipe")) return;
  for (int slots = std::max(ranks, step); slots <= most; slots += step)
    for (const int share : {3, 4, 5})  // a forward takes about a quarter of what both take
      for (const int round : ranks == 1 ? std::set{all} : std::set{ranks, std::min(2 * ranks, all)}) {
        const int forward = (slots + share / 2) / share;
        if (forward < 1 || slots - forward < 2 || options.stopped()) continue;
        ScheduleRequest order;
        order.name = "roundpipe";
        order.options = {{"forward_slots", std::to_string(forward)}, {"backward_slots", std::to_string(slots - forward)}};
        if (round != ranks) order.options["round"] = std::to_string(round);
        tried.estimate(variant, order, Recompute::None, 1);  // slots of the backward recompute by themselves
      }
}

// Why nothing of the kind can be searched; empty: it can.
std::string obstacle_of(const Experiment& experiment, const Space& space) {
  const Scenario& scenario = experiment.scenario;
  if (scenario.cluster.node.size() > 1 || space.node_size < space.devices)
    return "the weights lie in the memory of one node's host";
  if (!experiment.workload.graph || !scenario.workload.pt2_file.empty() || scenario.profile)
    return "the workload's costs are for given sizes";
  const Degrees& stated = scenario.degrees;
  if (stated.data > 1 || stated.context > 1 || stated.expert > 1) return "replicas are stated";
  if (!is_open(scenario, "schedule") || !is_open(scenario, "recompute")) return "the schedule and recompute are stated";
  return "";
}

}  // namespace

Answer search_streamed(const Experiment& experiment, const SearchOptions& options) {
  const Space space = space_of(experiment);
  if (std::string obstacle = obstacle_of(experiment, space); !obstacle.empty()) {
    Answer answer;
    answer.objective = "step_time_s";
    answer.reason = std::move(obstacle);
    return answer;
  }
  EstimatedOrders tried;
  for (const int micro : space.micro) {
    if (micro > kMostMicro || space.global_batch % micro != 0) continue;
    Scenario scenario = experiment.scenario;
    Degrees& degrees = scenario.degrees;
    degrees.micro = micro;
    degrees.microbatches = static_cast<int>(space.global_batch / micro);
    if (space.pipeline_open) degrees.pipeline = space.devices;
    if (is_open(scenario, "parallel.tensor")) degrees.tensor = 1;
    degrees.zero = 0;
    const Experiment variant(std::move(scenario));
    const std::int64_t without = tried.without_room(), before = tried.estimated();
    try_orders(variant, tried, options);
    if (options.stopped() || (tried.estimated() > before && tried.estimated() - before == tried.without_room() - without)) break;
  }
  return tried.answer(options, "whose weights come for a turn");
}

}  // namespace panpipe::planner
