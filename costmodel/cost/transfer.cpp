// The hand-over of a tensor between two stages (docs/models/collectives.md, "Stage hand-over").
#include <algorithm>

#include "costmodel/cost/occupancy.hpp"
#include "costmodel/cost/profiled.hpp"
#include "costmodel/cost/ring_hops.hpp"

namespace panpipe {
namespace {

// Megatron's scatter/gather (Narayanan et al., arXiv 2104.04473, section 4.1): between nodes each of the t ranks sends
// 1/t of the tensor over its own NIC, and the receivers gather it over the in-node fabric.
TransferCost hand_over_between_nodes(const Cluster& cluster, const Calibration& c, const Framework& framework,
                                     const Degrees& degrees, const Route& route, const HandOver& hand_over, Bytes tensor) {
  const int t = framework.scatter_gather ? degrees.tensor : 1;
  TransferCost cost;
  cost.path = route.path;
  cost.bytes = Bytes((tensor.base() + t - 1) / t);
  cost.latency = route.latency + c.transfer_latency;
  cost.efficiency = c.network_efficiency;
  if (t > 1) {
    const double gathered = static_cast<double>(tensor.base()) * (t - 1) / t;
    cost.gather = Duration(gathered / ring_hops(cluster, hand_over.receivers).reached(c));
  }
  // The stage's other ranks in the node send at the same moment; where they outnumber the NICs each gets its part.
  const double rate = c.network_efficiency * std::min(route.bandwidth.base(), hand_over.network);
  cost.time = cost.latency + Duration(static_cast<double>(cost.bytes.base()) / rate) + cost.gather;
  return cost;
}

Duration measured_message_work(const Profile& profile, Bytes bytes) {
  const TransferTable* work = profile.collective("message", 2);
  return work == nullptr ? Duration(0) : work->at(bytes);
}

}  // namespace

Duration CostModel::message_work(Bytes bytes, const Degrees& degrees) const {
  return scenario_->profile == nullptr ? Duration(0) : measured_message_work(*scenario_->profile, bytes) * stage_jitter(degrees);
}

TransferCost CostModel::transfer(int from, int to, Bytes tensor_bytes, const Degrees& degrees) const {
  return transfer(Occupancy::of(*scenario_, degrees).hand_over(from, to), tensor_bytes, degrees);
}

TransferCost CostModel::transfer(const HandOver& hand_over, Bytes tensor_bytes, const Degrees& degrees) const {
  const Cluster& cluster = scenario_->cluster;
  const int from = hand_over.from, to = hand_over.to;
  const Route route = cluster.route(from, to);
  TransferCost cost;
  cost.path = route.path;
  cost.bytes = tensor_bytes;
  if (route.path == PathClass::Local) return cost;
  if (const Profile* profile = scenario_->profile.get(); profile && profile->transfer(from, to)) {
    const TransferTable& table = *profile->transfer(from, to);
    cost.source = source_of(table, tensor_bytes);
    cost.time = table.at(tensor_bytes);  // a delay: the table is not a shared resource
    // The compute of both ends for a message is part of their passes.
    cost.time = std::max(Duration(0), cost.time - 2 * measured_message_work(*profile, tensor_bytes));
    cost.latency = cost.time;
    return cost;
  }
  if (cluster.given) {  // as written: nothing is added
    cost.source = CostSource::Given;
    cost.time = route.time_alone(tensor_bytes);
    cost.latency = route.table ? cost.time : route.latency;
    return cost;
  }
  const Calibration& c = calibration(cluster.devices[from].type);
  if (route.path == PathClass::Network)
    return hand_over_between_nodes(cluster, c, scenario_->framework, degrees, route, hand_over, tensor_bytes);
  cost.latency = route.latency + c.transfer_latency;
  // NVLink is stated as the data sheet's rate, which a hand-over does not reach; links through the host as measured.
  if (route.path == PathClass::Switch) cost.efficiency = c.transfer_efficiency;
  if (route.path == PathClass::Bridge) cost.efficiency = c.bridge_efficiency;
  cost.time = cost.latency + (route.time_alone(tensor_bytes) - route.latency) * (1.0 / cost.efficiency);
  return cost;
}

}  // namespace panpipe
