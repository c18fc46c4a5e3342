// The bytes and unshared rate of each flow of a plan, chosen so that on idle links it takes exactly its lowered time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/congruence.hpp"

namespace panpipe::sim {

struct FlowSpec {
  std::int32_t route = -1;  // into Network::routes; -1 = nothing is shared: a delay of `transfer` follows the latency
  double bytes = 0;         // chosen so that the flow takes `transfer` alone
  std::int32_t way = -1;    // into Network::ways, which include the route
  Ticks latency{0};         // before bytes flow
  Ticks transfer{0};        // on idle links
};

// Adds the ways of the flows to the folding's network.
class FlowTable {
 public:
  FlowTable(const TaskGraph& graph, const Platform& platform, Folding& folding);

  const FlowSpec& transfer(std::int32_t link, std::int32_t cls) const { return specs_[index(link, cls)]; }
  // A member of a collective inside a pass of `rank`, and of a collective that is a task.
  const FlowSpec& pass_member(int rank, std::int32_t flow, std::int32_t cls) const {
    return specs_[index(in_passes_[entry(rank, flow)], cls)];
  }
  const FlowSpec& lane_member(int rank, std::int32_t flow, std::int32_t cls) const {
    return specs_[index(lane_[entry(rank, flow)], cls)];
  }
  // An offload or reload; nullptr if its path shares nothing.
  const FlowSpec* host_copy(const Task& task, std::int32_t cls) const;
  // Per path, the highest rate of a member of a collective inside passes; 0 if there is none.
  const std::vector<double>& pass_rates() const { return pass_rates_; }

 private:
  std::size_t index(std::int32_t base, std::int32_t cls) const {
    return static_cast<std::size_t>(base) * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(cls);
  }
  std::size_t entry(int rank, std::int32_t flow) const {
    return static_cast<std::size_t>(rank) * flows_ + static_cast<std::size_t>(flow);
  }
  FlowSpec flow_over(const Route& route, std::int32_t shared_route, double bytes, double share, Ticks latency, Ticks transfer);
  void add_transfers();
  void add_host_copies();
  void add_member(std::int32_t& base, std::int32_t flow, int path);

  const TaskGraph* graph_;
  const Platform* platform_;
  Folding* folding_;
  std::map<std::pair<std::int32_t, double>, std::int32_t> ways_;  // (route, rate cap)
  int classes_ = 1;
  std::size_t flows_ = 0;
  std::vector<FlowSpec> specs_;                                       // [base][class]
  std::vector<std::int32_t> in_passes_, lane_;                        // [rank][flow] base, -1 = not used
  std::map<std::pair<int, std::int32_t>, std::int32_t> host_copies_;  // (rank, program) -> base
  std::vector<double> pass_rates_;
};

}  // namespace panpipe::sim
