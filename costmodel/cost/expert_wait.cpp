#include "costmodel/cost/expert_wait.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "costmodel/cost/expert_dispatch.hpp"
#include "costmodel/cost/graph_cost.hpp"
#include "costmodel/cost/launch.hpp"

namespace panpipe {

Duration idle_behind_host(const std::vector<LaunchedKernels>& kernels) {
  Duration host(0), device(0), idle(0);
  for (const LaunchedKernels& equal : kernels) {
    // The lag changes evenly from the first of them to the last.
    const Duration launch = equal.host / equal.count, runs = equal.device / equal.count;
    idle = std::max({idle, host + launch - device, host + equal.host - (device + equal.device - runs)});
    host += equal.host;
    device += equal.device;
  }
  return idle;
}

bool GraphCost::reads_counts(const UnitTemplate& shape) const {
  const Scenario& scenario = model_.scenario();
  const bool fixed = scenario.expert_load.capacity && scenario.expert_load.padded;
  return shape.dispatch >= 0 && framework().expert_counts != ExpertCounts::Device && !fixed &&
         framework().expert_dispatch != ExpertDispatch::LowLatency && !scenario.cluster.given;
}

// Ranks send one another how many rows they send to each expert: 8 bytes an expert and rank. DeepEP does so in the kernel of its
// dispatch. The exchange is all latency, and on streams of its own: it queues behind no all-to-all of a woven pass, but the
// compute lane waits for it.
void GraphCost::add_exchange_of_counts(const UnitTemplate& shape, PassCost& pass) {
  constexpr int kCount = 8;
  const auto ranks = static_cast<std::int64_t>(site_.groups.of(Among::Expert).size());
  if (ranks < 2 || !reads_counts(shape) || sends_to_nodes(framework().expert_dispatch, graph_.routing)) return;
  const int id = collective_of(CollectiveKind::AllGather, Bytes(kCount * ranks * graph_.routing.experts), Among::Expert);
  const CollectiveCost& collective = result_.collectives[id];
  count_launches(pass, collective);
  add_exposed(pass, collective.time);
  pass.pieces.emplace_back();
  pass.pieces.back().time = collective.time;
}

// The host reads how many rows each expert gets, and so waits until the device has done everything before: once, behind the
// dispatch of rows, or before each expert that it runs. What it then launches has no lead at first; it is regained where the host
// launches faster than the device computes. The hosts of a group begin together, since they have just exchanged the numbers. With
// a capacity the numbers are known beforehand.
void GraphCost::wait_for_rows(const UnitTemplate& shape, const UnitHost& host, const ForwardPart& part, PassCost& pass) {
  if (!reads_counts(shape) || framework().synchronous_launches) return;  // where all launches are synchronous none has a lead
  const Duration launch = launch_alone(framework(), calibration_);
  const bool one_by_one = framework().expert_counts == ExpertCounts::Each;
  std::vector<LaunchedKernels> kernels;
  int experts = 1;
  for (std::size_t i = at(shape.dispatch) + (one_by_one ? 0 : 1); i < shape.operators.size(); ++i) {
    const OperatorTime& op = shape.operators[i];
    if (!part.runs[i] || (one_by_one && !op.for_each_expert)) continue;
    if (one_by_one) experts = op.experts;
    const PassLaunches launched = host.behind_wait(op);
    const Duration at_host = launch * launched.host.launches + launched.host.other;
    const double count = op.for_each_expert ? std::max(1, op.forward_launches) : std::max(1.0, launched.kernels);
    kernels.push_back({count / experts, at_host / experts, (op.forward.total + gap(launched.kernels)) / experts});
    if (op.forward_collective == CollectiveKind::None || !part.sends(i) || one_by_one) continue;
    kernels.push_back({1, launch, result_.collectives[collective_of(op.forward_collective, op.collective_bytes, op.among)].time});
  }
  const Duration wait = idle_behind_host(kernels) * experts;
  if (wait <= Duration(0)) return;
  pass.breakdown.launch += wait;
  pass.breakdown.host_paced += wait;
  pass.breakdown.total += wait;
  pass.pieces.insert(pass.pieces.begin(), Piece{});
  pass.pieces.front().time = wait;
}

}  // namespace panpipe
