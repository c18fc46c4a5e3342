#include "costmodel/cost/occupancy.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cluster/fabric.hpp"
#include "costmodel/cost/cost_model.hpp"

namespace panpipe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<int> placed_devices(const Scenario& scenario, const Degrees& degrees) {
  std::vector<int> devices(std::min(degrees.device_count(), scenario.cluster.size()));
  std::iota(devices.begin(), devices.end(), 0);
  if (scenario.placement)
    std::copy_n(scenario.placement->begin(), std::min(devices.size(), scenario.placement->size()), devices.begin());
  return devices;
}

}  // namespace

Occupancy Occupancy::of(const Scenario& scenario, const Degrees& degrees) {
  return {scenario.cluster, degrees, placed_devices(scenario, degrees)};
}

Occupancy::Occupancy(const Cluster& cluster, const Degrees& degrees, std::vector<int> devices, bool rings)
    : cluster_(&cluster),
      fabric_(&fabric_of(cluster)),
      degrees_(degrees),
      devices_(std::move(devices)),
      positions_(at(cluster.size()), -1),
      in_use_(cluster.node.size(), 0) {
  for (std::size_t p = 0; p < devices_.size(); ++p) {
    positions_[devices_[p]] = static_cast<int>(p);
    ++in_use_[node(devices_[p])];
  }
  nodes_ = static_cast<int>(std::count_if(in_use_.begin(), in_use_.end(), [](int devices_in_use) { return devices_in_use > 0; }));
  std::vector<bool> used(cluster.types.size(), false);
  for (const int device : devices_) used[cluster.devices[device].type] = true;
  for (std::size_t type = 0; type < used.size(); ++type)
    if (used[type]) types_.push_back(static_cast<int>(type));
  if (nodes_ < 2) return;
  count_mates();
  find_widest();
  if (!rings) return;
  for (const Among among : kAmongAll) {
    const GroupShape shape = degrees_.group(among);
    const auto known = [&](const Crossings& other) { return other.shape == shape; };
    if (shape.members > 1 && std::none_of(crossings_.begin(), crossings_.end(), known)) crossings_.push_back(crossings_of(shape));
  }
}

template <class Visit>
void Occupancy::each_group(const GroupShape& shape, Visit visit) const {
  const auto [members, stride] = shape;
  std::vector<int> group;
  for (int block = 0; block < degrees_.device_count(); block += stride * members)
    for (int first = block; first < block + stride; ++first) {
      group.clear();
      for (int member = 0; member < members; ++member)
        if (const std::size_t p = at(first + member * stride); p < devices_.size()) group.push_back(devices_[p]);
      visit(group);
    }
}

Occupancy::Crossings Occupancy::crossings_of(const GroupShape& shape) const {
  Crossings crossings{shape, std::vector<int>(cluster_->node.size(), 0)};
  if (fabric().rails > 0)
    crossings.rail_up = crossings.rail_down = crossings.pairs_up = std::vector<double>(at(fabric().rails), 0);
  std::vector<int> seen(cluster_->node.size(), -1);
  int number = 0;
  each_group(shape, [&](const std::vector<int>& group) {
    int hops = 0;
    for (std::size_t i = 0; i < group.size(); ++i)
      if (node(group[i]) != node(group[(i + 1) % group.size()])) ++hops;
    if (hops > 0)
      for (const int device : group)
        if (int& last = seen[node(device)]; last != number) {
          last = number;
          ++crossings.rings[node(device)];
        }
    if (fabric().rails > 0)
      count_over_spine(group, crossings);
    else
      crossings.hops += hops;
    ++number;
  });
  return crossings;
}

const Occupancy::Crossings* Occupancy::crossings_with(const std::vector<int>& group) const {
  const int first = position(group[0]), second = position(group[1]);
  if (first < 0 || second < 0 || rank_of(group[0]) != rank_of(group[1])) return nullptr;
  PANPIPE_CHECK(!crossings_.empty(), "rings were not counted");
  const GroupShape shape{static_cast<int>(group.size()), std::abs(second - first)};
  const auto found =
      std::find_if(crossings_.begin(), crossings_.end(), [&](const Crossings& known) { return known.shape == shape; });
  return found == crossings_.end() ? nullptr : &*found;
}

// Adds a group to the loads of a fabric with rails. A ring leaves a node over the NICs of its members there, each to the NIC of
// its own rail; a member whose rail has none in the next node sends over the spine. Pairs of an all-to-all have fixed ends.
void Occupancy::count_over_spine(const std::vector<int>& group, Crossings& crossings) const {
  std::map<int, std::vector<double>> members;  // per node, by rail
  std::vector<double> all(at(fabric().rails), 0);
  for (const int device : group) {
    auto& rails = members.try_emplace(node(device), all.size(), 0.0).first->second;
    ++rails[at(rail_of(*cluster_, fabric(), device))];
  }
  for (const auto& [node, rails] : members)
    for (std::size_t r = 0; r < all.size(); ++r) all[r] += rails[r];
  for (std::size_t i = 0; i < group.size(); ++i) {
    const int here = node(group[i]), there = node(group[(i + 1) % group.size()]);
    if (here == there) continue;
    const std::vector<double>&from = members.at(here), &to = members.at(there);
    const double sending = std::accumulate(from.begin(), from.end(), 0.0), taking = std::accumulate(to.begin(), to.end(), 0.0);
    for (std::size_t r = 0; r < all.size(); ++r) {
      const double away = std::max(0.0, from[r] - to[r]) / sending;
      crossings.hops += away;
      crossings.rail_up[r] += away;
      crossings.rail_down[r] += std::max(0.0, to[r] - from[r]) / taking;
    }
  }
  for (const auto& [node, rails] : members) {
    const double here = std::accumulate(rails.begin(), rails.end(), 0.0);
    for (std::size_t r = 0; r < all.size(); ++r) {
      const double pairs = rails[r] * (static_cast<double>(group.size()) - here - (all[r] - rails[r]));
      crossings.pairs += pairs;
      crossings.pairs_up[r] += pairs;
    }
  }
}

double Occupancy::over_spine(double users, const std::vector<double>& up, const std::vector<double>& down) const {
  double least = kInfinity;
  if (cluster_->spine > Bandwidth(0) && users > 0) least = cluster_->spine.base() / users;
  if (fabric().rail_uplink > Bandwidth(0))
    for (const auto* way : {&up, &down})
      for (const double of_rail : *way)
        if (of_rail > 0) least = std::min(least, fabric().rail_uplink.base() / of_rail);
  return least;
}

// The narrowest way between nodes of a member over its own NIC: a ring leaves a node over as many as it has members there.
double Occupancy::nics_of(const std::vector<int>& group) const {
  double least = kInfinity;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const int from = group[i], to = group[(i + 1) % group.size()];
    if (node(from) == node(to)) continue;
    if (fabric().alike) return cluster_->route(from, to).bandwidth.base();
    for (const int member : group)
      if (node(member) == node(from))
        least = std::min(least, cluster_->route(member, ring_neighbour(*cluster_, group, member, to)).bandwidth.base());
  }
  return least;
}

GroupNetwork Occupancy::ring_network(const std::vector<int>& group) const {
  const Crossings* crossings = crossings_with(group);
  const double nic = nics_of(group);
  std::map<int, int> members;
  for (const int device : group) ++members[node(device)];
  double least = kInfinity;
  int own_hops = 0, in_node = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const int device = group[i];
    if (node(device) != node(group[(i + 1) % group.size()])) ++own_hops;
    in_node = std::max(in_node, members.at(node(device)));
    // A group of several ranks (holders of one parameter) runs at the same time as its counterparts in the other replicas.
    const int rings = crossings != nullptr ? std::max(1, crossings->rings[node(device)]) : mates(device);
    least = std::min({least, cluster_->node_of(device).network.base() / rings, nic * members.at(node(device))});
  }
  if (own_hops == 0) return {kInfinity};
  // Counterparts of a group whose kind was not counted are as many as a rank has devices.
  const double counterparts = crossings != nullptr ? 1 : degrees_.devices_of_rank();
  if (fabric().rails == 0) {
    const double hops = crossings != nullptr ? crossings->hops : own_hops * counterparts;
    least = std::min(least, over_spine(std::max<double>(hops, own_hops), {}, {}));
    return {least, std::min(least, nic)};
  }
  Crossings own;
  if (crossings == nullptr) {
    own.rail_up = own.rail_down = own.pairs_up = std::vector<double>(at(fabric().rails), 0);
    count_over_spine(group, own);
    crossings = &own;
  }
  const double ring = std::min(least, over_spine(crossings->hops, crossings->rail_up, crossings->rail_down) / counterparts);
  const double pairs = static_cast<double>(in_node) * static_cast<double>(std::ssize(group) - in_node);
  const double peers = pairs * over_spine(crossings->pairs, crossings->pairs_up, {}) / counterparts;
  return {.ring = ring, .member = std::min(ring, nic), .peers = std::min(least, peers)};
}

GroupNetwork Occupancy::network_of(const std::vector<int>& group) const {
  if (nodes_ < 2 || group.size() < 2) return {kInfinity};
  return ring_network(group);
}

int Occupancy::mates(int device) const {
  if (const int p = position(device); p >= 0 && !mates_.empty()) return mates_[p];
  return std::max(1, std::min(cluster_->node_of(device).devices, degrees_.devices_of_rank()));
}

void Occupancy::count_mates() {
  mates_.resize(devices_.size());
  const std::size_t devices_of_a_rank = at(degrees_.devices_of_rank());
  std::vector<int> count(cluster_->node.size(), 0);
  for (std::size_t first = 0; first < devices_.size(); first += devices_of_a_rank) {
    const std::size_t last = std::min(first + devices_of_a_rank, devices_.size());
    for (std::size_t p = first; p < last; ++p) ++count[node(devices_[p])];
    for (std::size_t p = first; p < last; ++p) mates_[p] = count[node(devices_[p])];
    for (std::size_t p = first; p < last; ++p) count[node(devices_[p])] = 0;
  }
}

void Occupancy::find_widest() {
  widest_ = 0;
  for (std::size_t p = 0; p < devices_.size(); ++p)
    widest_ = std::max(widest_, cluster_->node_of(devices_[p]).network.base() / mates_[p]);
  // On its own rail a hand-over does not cross the spine.
  if (fabric().rails == 0) widest_ = std::min(widest_, over_spine(degrees_.devices_of_rank(), {}, {}));
}

HandOver Occupancy::hand_over(int from, int to) const {
  HandOver hand_over{from, to, kInfinity, {}};
  if (position(to) >= 0) {
    const auto first = devices_.begin() + position(to) / degrees_.tensor * degrees_.tensor;
    if (devices_.end() - first >= degrees_.tensor) hand_over.receivers.assign(first, first + degrees_.tensor);
  }
  if (node(from) == node(to)) return hand_over;
  for (const int end : {from, to})
    hand_over.network = std::min(hand_over.network, cluster_->node_of(end).network.base() / mates(end));
  hand_over.network = std::min(hand_over.network, spine_of_hand_over(from, to));
  return hand_over;
}

// Of a sender, while the other devices of its rank send too.
double Occupancy::spine_of_hand_over(int from, int to) const {
  const int senders = degrees_.devices_of_rank();
  if (fabric().rails == 0) return over_spine(senders, {}, {});
  if (!crosses_spine(*cluster_, fabric(), from, to)) return kInfinity;
  double users = 1;
  std::vector<double> up(at(fabric().rails), 0), down = up;
  up[at(rail_of(*cluster_, fabric(), from))] = down[at(rail_of(*cluster_, fabric(), to))] = 1;
  for (int i = 0; position(from) >= 0 && position(to) >= 0 && i < senders; ++i) {
    const std::size_t sender = at(rank_of(from) * senders + i), receiver = at(rank_of(to) * senders + i);
    if (std::max(sender, receiver) >= devices_.size() || devices_[sender] == from) continue;
    const int a = devices_[sender], b = devices_[receiver];
    if (node(a) == node(b) || !crosses_spine(*cluster_, fabric(), a, b)) continue;
    ++users;
    ++up[at(rail_of(*cluster_, fabric(), a))];
    ++down[at(rail_of(*cluster_, fabric(), b))];
  }
  return over_spine(users, up, down);
}

Occupancy Occupancy::around(const Cluster& cluster, const std::vector<int>& group) {
  std::map<int, std::vector<int>> members, others;
  for (const int device : group) members[cluster.devices[device].node].push_back(device);
  for (int device = 0; device < cluster.size(); ++device) {
    const auto found = members.find(cluster.devices[device].node);
    if (found != members.end() && std::find(found->second.begin(), found->second.end(), device) == found->second.end())
      others[found->first].push_back(device);
  }
  std::size_t more = cluster.node.empty() ? 0 : at(cluster.size());
  for (const auto& [node, own] : members) more = std::min(more, others[node].size() / own.size());
  const Degrees degrees{.tensor = static_cast<int>(more) + 1, .data = static_cast<int>(group.size())};
  std::vector<int> devices;
  std::map<int, std::size_t> taken;
  for (const int device : group) {
    devices.push_back(device);
    const int node = cluster.devices[device].node;
    for (std::size_t g = 0; g < more; ++g) devices.push_back(others[node][taken[node]++]);
  }
  return {cluster, degrees, std::move(devices)};
}

bool same_ways(const Cluster& cluster, const std::vector<int>& one, const std::vector<int>& other) {
  const bool alike = fabric_of(cluster).alike;
  std::set<std::int32_t> nodes;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const Device& a = cluster.devices[one[i]];
    const Device& b = cluster.devices[other[i]];
    if (a.node != b.node || a.type != b.type) return false;
    if (!alike && one[i] != other[i]) return false;
    if (!cluster.switched && !nodes.insert(a.node).second) return false;
  }
  return true;
}

std::vector<int> Occupancy::form_of(const std::vector<int>& group) const {
  std::map<int, std::pair<int, int>> nodes;  // node -> in order of appearance, members of the group
  for (const int device : group) {
    const auto entry = nodes.try_emplace(node(device), static_cast<int>(nodes.size()), 0).first;
    ++entry->second.second;
  }
  std::vector<int> form;
  form.reserve((6 + crossings_.size()) * group.size());
  for (const int device : group) {
    const Device& place = cluster_->devices[device];
    const auto& [order, members] = nodes.at(place.node);
    const auto n = at(place.node);
    const bool alone = members == 1 && nodes.size() > 1 && fabric().alike;
    form.insert(form.end(), {place.type, cluster_->node[n].group, order, alone ? -1 : place.index_in_node, in_use_[n]});
    if (!fabric().alike) form.push_back(place.node);
    for (const Crossings& crossings : crossings_) form.push_back(crossings.rings[n]);
  }
  return form;
}

std::vector<int> Occupancy::form_of(const PassGroups& groups) const {
  std::vector<int> form;
  for (const Among among : kAmongInPasses) {
    if (groups.of(among).size() < 2) continue;
    const std::vector<int> more = form_of(groups.of(among));
    form.push_back(-2 - static_cast<int>(among));
    form.insert(form.end(), more.begin(), more.end());
  }
  return form;
}

}  // namespace panpipe
