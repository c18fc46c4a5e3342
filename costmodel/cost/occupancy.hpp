// The devices of a cluster that a plan uses, and the groups that send out of a node at the same time. Groups share their node's
// network link, and all traffic between nodes shares the spine.
#pragma once

#include <limits>
#include <vector>

#include "costmodel/cluster/fabric.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// A group's share of the network, in bytes per second of the wire.
struct GroupNetwork {
  double ring;  // of a hop of its ring while all rings of its kind are busy, limited by the nodes' links and the spine
  double member = std::numeric_limits<double>::infinity();  // the same if only one member sends over the hop
  double crossing = 1;   // of an all-to-all's bytes for other nodes, the share that crosses to the busiest node
  bool copies = false;   // nodes make the copies of what reaches them once
  bool at_once = false;  // one kernel writes to all peers, without rounds
  double peers = ring;   // of the group out of a node in an all-to-all, whose members send to other rails too
};

// A hand-over from one device to another, while the other devices of the sender's rank also send.
struct HandOver {
  int from = 0, to = 0;
  double network = 0;          // the sender's share of the network, bytes per second of the wire; infinite: unlimited
  std::vector<int> receivers;  // the receiver's tensor-parallel group; if empty, the first node's fabric is assumed
};

struct PassGroups;

// True if two groups of a plan's devices along the same ranks cost the same: at each position the types and nodes are equal, and
// several devices within a node are connected by its switch.
bool same_ways(const Cluster& cluster, const std::vector<int>& one, const std::vector<int>& other);

class Occupancy {
 public:
  // `devices` is indexed by position (rank, replica, tensor), tensor fastest. The cluster must outlive the object. Set `rings` to
  // false if no group inside a rank will be queried; this saves most of the time.
  Occupancy(const Cluster& cluster, const Degrees& degrees, std::vector<int> devices, bool rings = true);
  // The scenario's placement, else devices in order. Positions without a device in the cluster are left out.
  static Occupancy of(const Scenario& scenario, const Degrees& degrees);

  const Degrees& degrees() const { return degrees_; }
  const std::vector<int>& devices() const { return devices_; }
  // Number of nodes with a device in use.
  int nodes() const { return nodes_; }
  const std::vector<int>& types() const { return types_; }  // of the devices in use, ascending

  // Assumes that the nodes of a group are full of groups of its shape.
  static Occupancy around(const Cluster& cluster, const std::vector<int>& group);

  // The network share of a group inside a rank, or across ranks. Infinite inside one node.
  GroupNetwork network_of(const std::vector<int>& group) const;
  HandOver hand_over(int from, int to) const;
  // The largest network share of any sender of a hand-over between nodes.
  double widest_hand_over() const { return widest_; }

  // A key that is equal for groups with equal costs of passes and collectives, wherever they lie. It covers types, nodes,
  // sharing, and the position in a node if other members of the group are in the same node. Only for devices that the plan uses.
  std::vector<int> form_of(const std::vector<int>& group) const;
  // The same for all groups that the passes of one device communicate in.
  std::vector<int> form_of(const PassGroups& groups) const;

 private:
  struct Crossings {  // of all groups of one shape
    GroupShape shape;
    std::vector<int> rings;  // per node: rings that leave it
    double hops = 0;         // of all rings, over the spine: without rails all between nodes
    // Per rail, of hops that leave for another rail and of those that come from one: each as many as cross its uplinks.
    std::vector<double> rail_up{}, rail_down{};
    // The same of all-to-alls, in pairs of a sender and a receiver; empty without rails.
    double pairs = 0;
    std::vector<double> pairs_up{};
  };
  void count_over_spine(const std::vector<int>& group, Crossings& crossings) const;
  // What the spine and the uplinks of rails leave each of so many equal users, bytes per second.
  double over_spine(double users, const std::vector<double>& up, const std::vector<double>& down) const;
  double nics_of(const std::vector<int>& group) const;
  void count_mates();
  void find_widest();
  double spine_of_hand_over(int from, int to) const;
  Crossings crossings_of(const GroupShape& shape) const;
  const Crossings* crossings_with(const std::vector<int>& group) const;  // nullptr: a group across ranks
  int mates(int device) const;
  GroupNetwork ring_network(const std::vector<int>& group) const;
  const Fabric& fabric() const { return *fabric_; }
  int node(int device) const { return cluster_->devices[device].node; }
  int position(int device) const { return positions_[device]; }
  int rank_of(int device) const { return position(device) / degrees_.devices_of_rank(); }
  template <class Visit>
  void each_group(const GroupShape& shape, Visit visit) const;

  const Cluster* cluster_;
  const Fabric* fabric_;
  Degrees degrees_;
  std::vector<int> devices_;
  std::vector<int> positions_;        // per device of the cluster; -1: not in use
  std::vector<int> in_use_;           // per node
  std::vector<int> mates_;            // per position: devices of its rank in the same node, itself included
  std::vector<Crossings> crossings_;  // of each shape that groups of several members have
  double widest_ = std::numeric_limits<double>::infinity();
  int nodes_ = 0;
  std::vector<int> types_;
};

}  // namespace panpipe
