// Which devices of a cluster a plan uses, and which of its groups send out of a node at the same moment: they share the node's
// way out, and everything between nodes shares the spine.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// What a group of devices gets of the network, bytes per second of the wire.
struct GroupNetwork {
  double ring;  // a hop of its ring, while all rings of its kind are busy: of the nodes' ways out and of the spine
  double member = std::numeric_limits<double>::infinity();  // the same where one member alone sends over the hop
  double crossing = 1;  // of an all-to-all's bytes for other nodes, the share that crosses: the nodes make the copies
};

// A hand-over from one device to another, while the other devices of the sender's rank send too.
struct HandOver {
  int from = 0, to = 0;
  double network = 0;          // what the sender gets of the network, bytes per second of the wire; infinite: all of it
  std::vector<int> receivers;  // the receiver's tensor-parallel group; empty: the first node's fabric stands for it
};

// Whether two groups of a plan's devices that go along the same ranks cost the same: position by position they are of the same
// type on the same nodes, and where several lie in a node, they are behind its switch.
bool same_ways(const Cluster& cluster, const std::vector<int>& one, const std::vector<int>& other);

class Occupancy {
 public:
  // `devices`: of position (rank, replica, tensor), tensor fastest. The cluster must outlive it.
  // `rings`: false where nobody will ask about groups inside a rank, which saves most of the time.
  Occupancy(const Cluster& cluster, const Degrees& degrees, std::vector<int> devices, bool rings = true);
  // The scenario's placement, else devices in order. Positions that the cluster has no device for are left out.
  static Occupancy of(const Scenario& scenario, const Degrees& degrees);

  const Degrees& degrees() const { return degrees_; }
  const std::vector<int>& devices() const { return devices_; }
  // Nodes with a device in use.
  int nodes() const { return nodes_; }
  const std::vector<int>& types() const { return types_; }  // of the devices in use, ascending

  // As if the nodes of a group were full of groups of its shape.
  static Occupancy around(const Cluster& cluster, const std::vector<int>& group);

  // Of a group inside a rank, or over ranks. Infinite inside one node.
  GroupNetwork network_of(const std::vector<int>& group) const;
  HandOver hand_over(int from, int to) const;
  // The most that a sender of any hand-over between nodes gets of the network.
  double widest_hand_over() const { return widest_; }

  // Equal for groups that are alike wherever they lie, in everything that a pass and its collectives cost: types, nodes, who
  // shares them, and where in a node they lie if others of the group are there too. Not for devices that the plan does not use.
  std::vector<int> form_of(const std::vector<int>& group) const;

 private:
  struct Crossings {
    std::vector<int> rings;  // per node: rings that leave it
    int hops = 0;            // of all rings, between nodes
  };
  void count_mates();
  void find_widest();
  std::optional<Among> among_of(const std::vector<int>& group) const;  // none: over ranks
  Crossings crossings_of(Among among) const;
  const Crossings& crossings(Among among) const { return crossings_[index_of(among)]; }
  int mates(int device) const;
  double nic_of(const std::vector<int>& group) const;
  GroupNetwork ring_network(const std::vector<int>& group) const;
  int node(int device) const { return cluster_->devices[static_cast<std::size_t>(device)].node; }
  int position(int device) const { return positions_[static_cast<std::size_t>(device)]; }
  int rank_of(int device) const { return position(device) / degrees_.devices_of_rank(); }
  template <class Visit>
  void each_group(Among among, Visit visit) const;

  const Cluster* cluster_;
  Degrees degrees_;
  std::vector<int> devices_;
  std::vector<int> positions_;               // per device of the cluster; -1: not in use
  std::vector<int> in_use_;                  // per node
  std::vector<int> mates_;                   // per position: devices of its rank that lie in its node, itself included
  std::array<Crossings, kAmong> crossings_;  // empty for kinds of groups that a plan does not have
  double widest_ = std::numeric_limits<double>::infinity();
  int nodes_ = 0;
  std::vector<int> types_;
};

}  // namespace panpipe
