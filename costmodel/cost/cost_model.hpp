// The cost model: what every movable unit of a workload costs on a type of device, what transfers and collectives cost on
// the cluster, each as a breakdown that names its source. Terms and validation: docs/models/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/unit_edges.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

enum class CostSource : std::uint8_t { Measured, Interpolated, Extrapolated, Formula, Given };
std::string_view name_of(CostSource source);

// A cost and its parts. Times are on an idle device.
struct Breakdown {
  Flops work{0};
  Bytes traffic{0};           // memory read and written
  Duration compute{0};        // matrix products and attention
  Duration memory{0};         // element-wise, normalization, loss traffic
  Duration communication{0};  // collectives of the pass, exposed part
  Duration launch{0};         // kernel gaps, and the host's part that the device does not hide
  Duration total{0};
  CostSource source = CostSource::Formula;
};
Breakdown operator+(const Breakdown& a, const Breakdown& b);

enum class Algorithm : std::uint8_t { Ring, Tree, Nvls, NvlsTree, Peers };
std::string_view name_of(Algorithm algorithm);

// How NCCL hands data from one device to the next: in blocks with a flag each, or with flags among the data (smaller latency).
enum class Protocol : std::uint8_t { Simple, LL, LL128 };
std::string_view name_of(Protocol protocol);

// A collective over `members` devices. time = latency + serial part of the wire bytes on an idle fabric.
struct CollectiveCost {
  CollectiveKind kind{};
  Algorithm algorithm{};
  Protocol protocol{};
  int members = 1;
  Bytes bytes{0};       // of the full tensor; of what one member sends, its own share included, in an all-to-all or a SendReceive
  Bytes wire_bytes{0};  // that each member sends to its ring neighbour: 2(n-1)/n * bytes for a ring all-reduce
  Duration latency{0};
  Duration time{0};  // alone: latency + wire time at the algorithm's efficiency
  int parts = 1;     // of so many alike that one collective is cut into: bytes, wire_bytes, latency and time are its share
  CostSource source = CostSource::Formula;
  Among among = Among::Tensor;  // inside a pass: whose group
};

// The groups that a rank's passes communicate in, seen from one device: members in ring order.
struct PassGroups {
  std::array<std::vector<int>, kAmongPasses> members;

  PassGroups() = default;
  PassGroups(std::vector<int> tensor_group) { members[index_of(Among::Tensor)] = std::move(tensor_group); }
  // Of the first device of a replica; `devices` of position (rank, replica, tensor), tensor fastest.
  PassGroups(const Degrees& degrees, const std::vector<int>& devices, int rank, int replica);
  const std::vector<int>& of(Among among) const { return members[index_of(among)]; }
  const std::vector<int>& tensor() const { return of(Among::Tensor); }
  bool alone() const {  // nobody to communicate with
    return std::all_of(members.begin(), members.end(), [](const auto& group) { return group.size() <= 1; });
  }
};

// A transfer of one stage hand-over between two devices (one tensor-parallel rank's share).
struct TransferCost {
  PathClass path{};
  Bytes bytes{0};           // on the path (a share of the tensor under scatter/gather)
  Duration latency{0};      // path and software
  Duration gather{0};       // all-gather over the tensor-parallel ranks at the receiver, after the transfer
  Duration time{0};         // alone: latency + bytes / (path bandwidth x efficiency) + gather
  double efficiency = 1.0;  // share of the path's bandwidth that a transfer reaches
  CostSource source = CostSource::Formula;
};

// A piece of a pass: compute, or a collective. In program order; a collective starts when the piece before
// it ends. The piece after waits for it, unless `hidden_behind_next`: then the next compute piece runs meanwhile (a full
// backward hides the collective of an input gradient behind the same unit's weight gradient).
struct Piece {
  bool collective = false;
  bool hidden_behind_next = false;
  Duration time{0};        // alone
  int collective_id = -1;  // index into UnitCosts::collectives
  bool weight = false;     // compute of a weight gradient inside a full backward
  bool chunk = false;      // of a collective and its product: compute waits for all collectives before it but the last
};

struct PassCost {
  std::vector<Piece> pieces;
  Breakdown breakdown;        // sum of the pieces, without host effects
  int launches = 0;           // operators the host launches; a collective's wait for other ranks' hosts counts as some more
  bool synchronises = false;  // host and device meet (the loss): its time is added after the host-device norm
};

struct ParameterUse {
  int tensor = -1;            // parameter identity; the same id in two units is one tied parameter (-1 for measured layers)
  std::int64_t elements = 0;  // trained, of this tensor-parallel rank's shard
  Bytes given{0};             // measured layers: bytes
  bool experts = false;       // a part of experts that other ranks of the stage have other parts of
  Bytes frozen{0};            // of weights that are not trained: kept and gathered, without gradient and optimizer
  Bytes copies{0};            // kept besides from microbatch to microbatch, never gathered: weights in 8 bits
  Bytes narrower{0};          // by so much less is gathered, where weights travel in 8 bits
};

// A movable unit with its costs on one type of device.
struct UnitCost {
  std::string name;
  std::string block;
  int layer = -1;
  std::string structure;  // equal ones have equal operators and shapes; empty for measured layers
  PassCost forward, input_gradient, weight_gradient;
  // Both gradients at once: measured, where that is not their sum; or in the order of a framework that hides collectives.
  std::optional<PassCost> backward;
  PassCost recompute_full, recompute_selective;  // what recompute adds in front of the input gradient
  Bytes saved{0};                                // activations kept from F to the end of the backward, recompute none
  Bytes attention_core{0};                       // of it, what the inside of attention keeps
  Bytes saved_selective{0};                      // the same under selective recompute: without the attention core, or as listed
  Bytes saved_full{0};                           // the same under full recompute: the block's inputs, counted at its first unit
  Bytes kept_for_weight{0};  // of what is live, what the weight gradient still needs after the input gradient: inputs of
                             // products and gradients of their results; at most `saved`
  Bytes temporary{0};        // peak above live while a pass runs
  std::vector<ParameterUse> parameters;
  Bytes graph_inputs{0};
  Duration optimizer{0};  // measured layers
  // Of the forward and the input gradient, what the attention core takes: a slice of the sequence has no even share of it.
  Duration attention_forward{0}, attention_backward{0};
  bool causal_attention = false;
  bool recomputes = true;  // of a block in which the recompute modes do anything
};

// Everything the lowering needs to know of a workload on one type of device.
struct WorkloadCost {
  std::vector<UnitCost> units;  // topological order
  std::vector<UnitEdge> edges;
  std::vector<CollectiveCost> collectives;
  bool split_backward = true;  // weight gradients can run apart (measured layers with `backward` only: false)
  int loss_unit = -1;
  int recompute_first = 0;              // blocks of a stage in which the recompute modes do anything, from its first; 0 = all
  int recompute_chunk = 1;              // blocks of a stage that full recompute makes again together, from one kept input
  bool recompute_spans_block = false;   // selective recompute makes results again across the units of a block, as full does
  std::vector<std::string> unmeasured;  // units that the scenario's profile does not know: formulas
};

class Occupancy;
class Sites;
struct GroupNetwork;
struct HandOver;

// A site is where a stage can run: a type of device, and groups whose collectives cost what they cost there. The first ones are
// the cluster's types, each with the best wired groups of such devices; others are found as groups are asked about.

// Units and collectives are those of the workload's shape and the scenario's choices. What depends on more degrees is asked with
// them: the scenario's own count for nothing here.
class CostModel {
 public:
  // `workload` and `scenario` must outlive the model. Throws InputError when a device names a calibration that is not there.
  CostModel(const Scenario& scenario, const Workload& workload);
  // The same with other numbers than the devices name, one for each of the cluster's types.
  CostModel(const Scenario& scenario, const Workload& workload, std::vector<Calibration> calibrations);

  // The site of a device's groups; with tensor-parallel members of unlike types, that of the slowest.
  int site_of(const PassGroups& groups, const Occupancy& occupancy) const;
  int type_of(int site) const;
  // Throws InputError when devices of this type have no compute rate (or none for the scenario's precision) and the
  // workload brings no times.
  const WorkloadCost& workload(int site) const;
  // The same for those who need bytes and work only: without rates every time is 0, and nothing is thrown.
  const WorkloadCost& units(int site) const;
  // Bytes unsplit. The second form: between the devices of the scenario's placement, or of the default one.
  TransferCost transfer(const HandOver& hand_over, Bytes tensor_bytes, const Degrees& degrees) const;
  TransferCost transfer(int from_device, int to_device, Bytes tensor_bytes, const Degrees& degrees) const;
  // What each end of a message computes for it, on the core that passes run on and waits for as they do: where a profile measured
  // it, else nothing.
  Duration message_work(Bytes bytes, const Degrees& degrees) const;
  // A collective over the given devices (members in ring order). The second form: in nodes full of groups of the same shape.
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices, const GroupNetwork& network) const;
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const;
  // Optimizer step over `parameters` elements held by one device (divided over a shard group for zero >= 1).
  Breakdown optimizer(std::int64_t elements, int site, const Degrees& degrees) const;

  // Host and device run side by side: (device^4 + host^4)^(1/4), or their sum with synchronous launches. Where one process
  // launches for all ranks of a pipeline, a launch takes longer; on one rank it takes least.
  Duration host_bound(Duration device, int launches, int site, const Degrees& degrees) const;
  // What a compute piece loses while a collective of this length runs beside it.
  Duration overlap_slowdown(Duration collective, int site = 0) const;
  // Factor on pass times: the slowest of the ranks and of the nodes in use, cores that they share. The second form: on the
  // devices of the scenario's placement, or of the default one.
  double stage_jitter(const Degrees& degrees, const Occupancy& occupancy) const;
  double stage_jitter(const Degrees& degrees) const;
  double node_jitter(int nodes) const;  // of that, what the number of nodes adds

  // Bytes per parameter element: what the framework, precision, optimizer and ZeRO stage keep.
  double parameter_bytes(const Degrees& degrees) const;  // weights, as computed with
  double gradient_bytes(const Degrees& degrees) const;
  double optimizer_bytes(const Degrees& degrees) const;  // moments, and the fp32 master copy where mixed (ZeRO 1 divides both)
  Bytes framework_context() const;                       // 0 for in-place clusters
  double allocator_factor() const;                       // fragmentation, 1 for in-place clusters
  Bytes loss_bytes_live() const;  // logits and their gradient while the loss runs: within the loss unit's saved + temporary

  const Calibration& calibration(int device_type) const;
  const Scenario& scenario() const { return *scenario_; }
  const Workload& source() const { return *workload_; }

 private:
  double cast_traffic(int device_type, const Degrees& degrees) const;

  const Scenario* scenario_;
  const Workload* workload_;
  std::vector<Calibration> calibrations_;  // per device type
  std::shared_ptr<Sites> sites_;
  double weights_in_8_bits_ = 0;  // share of the trained elements
};

// The table of `panpipe check --costs`: what the model believes, with sources.
std::string costs_table(const CostModel& model);
std::string costs_json(const CostModel& model);  // the same as a JSON document

}  // namespace panpipe
