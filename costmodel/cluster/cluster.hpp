// Devices, links and wiring: the hardware, and the shared resources that a transfer between two devices uses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/precision.hpp"
#include "base/quantity.hpp"
#include "base/run_quantities.hpp"

namespace panpipe {

// A type of device, each in its own file under scenarios/devices/. Every number in these files names its source.
struct DeviceType {
  std::string name;  // "A100-80G-SXM"
  std::string kind;  // "gpu" | "cpu" | "given" (an in-place cluster's device, without rates)
  Bytes memory{0};
  double usable = 1.0;  // share of memory that programs can use; the driver keeps the rest
  Bandwidth memory_bandwidth{0};
  std::map<Precision, ComputeRate>
      peak;  // dense peak with fp32 accumulation; Bf16Pure/Fp16Pure fall back to Bf16/Fp16; Fp8 and narrower: of products so
  int multiprocessors = 0;
  Power tdp{0};                                // thermal design power, or board power; 0: not stated
  Bandwidth copy_bandwidth{0};                 // host <-> device, one direction (PCIe); for offload
  bool peer_access = true;                     // GeForce cards: false, unbridged pairs copy through the host
  bool multicast = false;                      // NVLink SHARP (NVLS) with a switch of its generation
  int nvlink_links = 0;                        // links of one device; 0: none
  Bandwidth nvlink_bandwidth{0};               // of one link, one direction
  std::string calibration;                     // name of the shipped calibration, empty = data sheet only
  double may_be_faster = 0;                    // share; above 0 where other work disturbed the measurements of its rates
  std::string driver_name;                     // as nvidia-smi prints it: "NVIDIA A100-SXM4-80GB"
  std::string server;                          // name of the shipped cluster that describes a server of these; empty: none
  double compute_capability = 0;               // 0: not stated
  std::map<std::string, std::string> sources;  // key -> the number's source

  bool has_rates() const { return memory_bandwidth > Bandwidth(0) && !peak.empty(); }
  ComputeRate peak_for(Precision precision) const;  // 0 if the device has no such rate
};

// Classes of path, from near to far. Costs that depend on the path (latency, efficiency) are kept per class.
enum class PathClass : std::uint8_t {
  Local,        // the same device: free
  Bridge,       // NVLink bridge between a pair
  Switch,       // NVSwitch inside a node
  PeerPcie,     // PCIe peer access inside a node
  Host,         // copied through the memory of the host, on one socket
  HostSockets,  // copied through the memory of the host, across the link between sockets
  Network,      // between nodes
  Given,        // an in-place cluster's link
};
std::string_view name_of(PathClass path);

enum class ResourceClass : std::uint8_t {
  BridgeLink,
  SwitchPort,
  PcieLink,
  PcieRoot,
  HostMemory,
  SocketLink,
  Nic,
  LeafUplink,
  Spine,
  GivenLink
};
std::string_view name_of(ResourceClass resource);

// A capacity that concurrent transfers share max-min fairly. Directions are separate resources.
struct Resource {
  std::string name;  // "node0.nic3.out"
  ResourceClass kind{};
  Bandwidth bandwidth{0};
};

struct Hop {
  std::int32_t resource = 0;
  std::int32_t uses = 1;  // a path that crosses a resource twice (a copy staged in host memory) counts two uses
};

// Measured transfer times of a link: linear between points and beyond the last; constant below the first.
struct TransferTable {
  std::vector<std::pair<Bytes, Duration>> points;  // strictly increasing sizes
  Duration at(Bytes size) const;
};

struct Route {
  PathClass path = PathClass::Local;
  Duration latency{0};
  std::vector<Hop> hops;                       // empty: nothing is shared (local, a table, unlimited bandwidth)
  std::shared_ptr<const TransferTable> table;  // if set, a transfer takes table->at(size) and shares nothing
  Bandwidth bandwidth{0};                      // of the route alone: min over hops of capacity / uses; infinite without hops

  Duration time_alone(Bytes size) const;  // latency + size / bandwidth, or the table; 0 for Local
};

struct Device {
  std::int32_t type = 0;  // index into Cluster::types
  std::int32_t node = 0;
  std::int32_t index_in_node = 0;
};

struct ClusterNode {
  std::int32_t group = 0;  // nodes of one group have equal wiring
  std::int32_t devices = 0;
  Bandwidth network{0};  // out of the node, one direction: all its NICs together, or its uplink if that is narrower
  Duration post{0};      // host time per message handed to a NIC
  Bytes memory{0};       // of the host; 0: not stated
};

struct CollectiveTables;  // costmodel/cluster/collective_tables.hpp

// The wiring of a node's devices and hosts. Readers in this folder build it; all other code uses Cluster.
class Wiring {
 public:
  virtual ~Wiring() = default;
  virtual Route route(int from, int to) const = 0;
};

struct Cluster {
  std::string name;
  std::vector<DeviceType> types;
  std::vector<Device> devices;
  int nodes = 1;
  std::vector<ClusterNode> node;  // one entry per node
  std::optional<double> usable;   // share of every device's memory that a plan may fill, if the cluster states it
  std::vector<Resource> resources;
  std::shared_ptr<const Wiring> wiring;  // owns the routing rules; never null
  bool given = false;                    // written in place with one link per ordered pair: no rates, no framework context

  const DeviceType& type_of(int device) const { return types[devices[device].type]; }
  int size() const { return static_cast<int>(devices.size()); }
  // The route of a transfer. Throws InputError if no path joins the devices.
  Route route(int from, int to) const { return wiring->route(from, to); }
  const ClusterNode& node_of(int device) const { return node[devices[device].node]; }
  Bandwidth spine{0};  // shared by all traffic between nodes; 0: never a limit
  // Per-device bandwidth of the in-node fabric, one direction: the rate of each hop of a ring over the first node's devices, in
  // order, while all hops are busy (NVSwitch port, or the narrowest of bridges, PCIe and host). Infinite for one device.
  Bandwidth fabric_bandwidth{0};
  // True if every pair of a node's devices communicates through an NVSwitch.
  bool switched = false;
  // Measured collectives, which take precedence over formulas; may be null.
  std::shared_ptr<const CollectiveTables> collectives;
};

// "node0.gpu3"
std::string device_name(const Cluster& cluster, int device);

}  // namespace panpipe
