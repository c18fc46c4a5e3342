// The cost model: the cost of each movable unit of a workload on each type of device, and of transfers and collectives on the
// cluster. Each cost is a breakdown that names its source. Terms and validation: docs/models/.
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

// A cost and its parts. Times assume an idle device.
struct Breakdown {
  Flops work{0};
  Bytes traffic{0};           // memory read and written
  Duration compute{0};        // matrix products and attention
  Duration attention{0};      // part of compute: the attention core
  Duration operands{0};       // part of compute: products whose operands take longer to move than to multiply
  Duration memory{0};         // element-wise, normalization, loss traffic
  Duration communication{0};  // collectives of the pass, exposed part
  Duration launch{0};         // kernel gaps, and the part of the host's time that the device does not hide
  Duration host{0};           // the host's time for its launches, hidden or not
  Duration host_paced{0};     // part of total that grows with the time of a launch
  Duration total{0};
  CostSource source = CostSource::Formula;
};
Breakdown operator+(const Breakdown& a, const Breakdown& b);

enum class Algorithm : std::uint8_t { Ring, Tree, Nvls, NvlsTree, Peers };
std::string_view name_of(Algorithm algorithm);

// NCCL's way of passing data between devices: in blocks with one flag each, or with flags within the data (lower latency).
enum class Protocol : std::uint8_t { Simple, LL, LL128 };
std::string_view name_of(Protocol protocol);

// A collective over `members` devices. time = latency + serial part of the wire bytes on an idle fabric.
struct CollectiveCost {
  CollectiveKind kind{};
  Algorithm algorithm{};
  Protocol protocol{};
  int members = 1;
  Bytes bytes{0};       // of the full tensor; in an all-to-all or a SendReceive, of one member's data, its own share included
  Bytes wire_bytes{0};  // sent by each member to its ring neighbour: 2(n-1)/n * bytes for a ring all-reduce
  Duration latency{0};
  Duration time{0};  // alone: latency + wire time at the algorithm's efficiency
  int parts = 1;     // number of equal parts of a collective that is cut; bytes, wire_bytes, latency and time are of one part
  CostSource source = CostSource::Formula;
  Among among = Among::Tensor;  // inside a pass: the group that communicates
  bool crosses_nodes = false;   // members are on several nodes
};

// The groups that a rank's passes communicate in, for one device: members in ring order.
struct PassGroups {
  std::array<std::vector<int>, kAmongPasses> members;

  PassGroups() = default;
  PassGroups(std::vector<int> tensor_group) { members[index_of(Among::Tensor)] = std::move(tensor_group); }
  // Groups of the first device of a replica. `devices` is indexed by position (rank, replica, tensor), tensor fastest.
  PassGroups(const Degrees& degrees, const std::vector<int>& devices, int rank, int replica);
  const std::vector<int>& of(Among among) const { return members[index_of(among)]; }
  const std::vector<int>& tensor() const { return of(Among::Tensor); }
  bool alone() const {  // no other device to communicate with
    return std::all_of(members.begin(), members.end(), [](const auto& group) { return group.size() <= 1; });
  }
};

// The transfer of one hand-over between two devices (one tensor-parallel rank's share).
struct TransferCost {
  PathClass path{};
  Bytes bytes{0};           // on the path (a share of the tensor under scatter/gather)
  Duration latency{0};      // of path and software
  Duration gather{0};       // all-gather over the receiver's tensor-parallel ranks, after the transfer
  Duration time{0};         // alone: latency + bytes / (path bandwidth x efficiency) + gather
  double efficiency = 1.0;  // share of the path's bandwidth that a transfer reaches
  CostSource source = CostSource::Formula;
};

// A piece of a pass: compute or a collective, in program order. A collective starts when the piece before it ends. The next piece
// waits for it, unless `hidden_behind_next` is set: then the next compute piece runs meanwhile (a full backward hides the
// collective of an input gradient behind the same unit's weight gradient).
struct Piece {
  bool collective = false;
  bool hidden_behind_next = false;
  Duration time{0};        // alone
  int collective_id = -1;  // index into UnitCosts::collectives
  bool weight = false;     // compute of a weight gradient inside a full backward
  bool chunk = false;  // of a collective and its product that are cut: compute waits for all earlier collectives except the last
};

// What the host does for a pass: launches, whose time is the framework's, and work that takes its time whatever a launch takes
// (waits for other ranks' hosts in collectives; products that a loop in C++ launches).
struct HostWork {
  HostWork(int launched = 0, Duration beside = Duration(0)) : launches(launched), other(beside) {}

  bool none() const { return launches <= 0 && other <= Duration(0); }
  HostWork& operator+=(const HostWork& more) {
    launches += more.launches;
    other += more.other;
    return *this;
  }
  friend HostWork operator-(const HostWork& a, const HostWork& b) { return {a.launches - b.launches, a.other - b.other}; }
  bool operator==(const HostWork&) const = default;

  int launches = 0;
  Duration other{0};
};

struct PassCost {
  std::vector<Piece> pieces;
  Breakdown breakdown;  // sum of the pieces, without host effects
  HostWork host;
  bool synchronises = false;  // host and device synchronise (the loss): its time is added after the host-device norm
};

// Matrices of one parameter that an optimizer steps whole (matrix_optimizer.hpp).
struct MatrixUse {
  std::int64_t count = 0;        // on this rank; 0: the optimizer steps element by element
  std::int64_t elements = 0;     // of one, whole
  std::int64_t shard = 0;        // of one, on this tensor-parallel rank
  std::int64_t gram = 0;         // elements of a Gram matrix that tensor-parallel ranks sum in each iteration; 0: none do
  std::int64_t more_states = 0;  // elements of state of all on this rank, beyond two of each of their elements
  Duration step{0};              // of one, by one rank
  Flops work{0};                 // the same
  int launches = 0;              // of one
  Bytes temporary{0};            // of one
  bool operator==(const MatrixUse&) const = default;
};

struct ParameterUse {
  int tensor = -1;            // parameter identity; equal ids in two units are one tied parameter (-1 for measured layers)
  std::int64_t elements = 0;  // trained, in this tensor-parallel rank's shard
  Bytes given{0};             // bytes as stated by measured layers
  bool experts = false;       // belongs to experts that are divided over ranks of the stage
  Bytes frozen{0};            // weights that are not trained: kept and gathered, without gradient and optimizer state
  Bytes copies{0};            // kept in addition from microbatch to microbatch, never gathered: weights in 8 bits
  Bytes narrower{0};          // bytes saved in a gather when weights travel in 8 bits
  MatrixUse matrices{};
};

// What of a block's kept activations streams to the host: the inputs of the block, as full recompute keeps them, or all.
enum class Streamed : std::uint8_t { None, Inputs, All };

// A movable unit with its costs on one type of device.
struct UnitCost {
  std::string name;
  std::string block;
  int layer = -1;
  std::string structure;  // equal texts mean equal operators and shapes; empty for measured layers
  PassCost forward, input_gradient, weight_gradient;
  // Both gradients together, if measured as such or if a framework's order hides collectives; otherwise their sum applies.
  std::optional<PassCost> backward;
  PassCost recompute_full, recompute_selective;  // added before the input gradient by recompute
  Bytes saved{0};                                // activations kept from F to the end of the backward, without recompute
  Bytes attention_core{0};                       // part of `saved` that the inside of attention keeps
  Bytes saved_selective{0};                      // kept under selective recompute: without the attention core, or as listed
  std::vector<int> selective_inputs;  // tensors of earlier units of the block that `saved_selective` counts, as edges name them
  Bytes saved_full{0};                // kept under full recompute: the block's inputs, counted at its first unit
  Bytes kept_for_weight{0};  // live bytes that the weight gradient still needs after the input gradient: inputs of products and
                             // gradients of their results; at most `saved`
  Bytes temporary{0};        // peak above the live bytes while a pass runs
  // Copies of trained weights in the format of products, and those of products that selective recompute does not run again. Where
  // autocast makes them, autograd keeps them in addition to `saved`, and its cache those that recompute drops until the forward
  // ends.
  Bytes weight_copies{0}, weight_copies_selective{0};
  Bytes logits{0};  // that the loss reads
  std::vector<ParameterUse> parameters;
  Bytes graph_inputs{0};
  Duration optimizer{0};  // of the step: measured layers, and matrices that it takes whole, by one rank
  // The attention core's share of the forward and the input gradient. A slice of the sequence does not take an even share of it.
  Duration attention_forward{0}, attention_backward{0};
  bool causal_attention = false;
  bool recomputes = true;       // part of a block to which the recompute modes apply
  Streamed streams{};           // what lies in the host's memory while later blocks run (`offload.blocks`, `block_inputs`)
  Bytes streamed_gradients{0};  // its part of the sums that lie there (`offload.gradients`), before ZeRO divides them
};

// The full cost description of a workload on one type of device, as the lowering needs it.
struct WorkloadCost {
  std::vector<UnitCost> units;  // topological order
  std::vector<UnitEdge> edges;
  std::vector<CollectiveCost> collectives;
  bool split_backward = true;  // weight gradients can run separately (false for measured layers with only `backward`)
  int loss_unit = -1;
  int recompute_first = 0;             // number of blocks of a stage, from its first, to which the recompute modes apply; 0 = all
  int recompute_chunk = 1;             // blocks of a stage that full recompute runs again together, from one kept input
  bool recompute_spans_block = false;  // selective recompute crosses the units of a block, as full recompute does
  std::vector<std::string> unmeasured;  // units that the scenario's profile lacks; formulas price them
};

struct UnitAllocations;
class LengthModels;
class Occupancy;
class Sites;
struct GroupNetwork;
struct HandOver;

// A site is a place where a stage can run: a type of device, with groups whose collectives have the same cost. The first sites
// are the cluster's types, each with the best-connected groups of such devices; more are added as groups are queried.

// Units and collectives follow the workload's shape and the scenario's choices. Costs that depend on further degrees take them as
// an argument; the scenario's own degrees are ignored.
class CostModel {
 public:
  // `workload` and `scenario` must outlive the model. Throws InputError if a device names a calibration that does not exist.
  CostModel(const Scenario& scenario, const Workload& workload);
  // The same with given calibrations, one for each of the cluster's types, instead of those that the devices name.
  CostModel(const Scenario& scenario, const Workload& workload, std::vector<Calibration> calibrations);

  // The site of a device's groups. If tensor-parallel members have different types, the site of the slowest.
  int site_of(const PassGroups& groups, const Occupancy& occupancy) const;
  int type_of(int site) const;
  // Throws InputError if devices of this type have no compute rate (or none for the scenario's precision) and the workload brings
  // no times.
  const WorkloadCost& workload(int site) const;
  // The same for callers that need only bytes and work: without rates every time is 0, and nothing is thrown.
  const WorkloadCost& units(int site) const;
  // `tensor_bytes` is the unsplit size. The second form uses the devices of the scenario's placement, or of the default one.
  TransferCost transfer(const HandOver& hand_over, Bytes tensor_bytes, const Degrees& degrees) const;
  TransferCost transfer(int from_device, int to_device, Bytes tensor_bytes, const Degrees& degrees) const;
  // Compute time that each end of a message spends on it. It runs on the core that passes run on. Zero unless a profile measured
  // it.
  Duration message_work(Bytes bytes, const Degrees& degrees) const;
  // The cost of a collective over the given devices (members in ring order). The second form assumes nodes full of groups of the
  // same shape.
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices, const GroupNetwork& network) const;
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const;
  // Optimizer step over parameters held by one device (divided over a shard group if zero >= 1): so many elements in so many
  // tensors.
  Breakdown optimizer(std::int64_t elements, std::int64_t tensors, int site, const Degrees& degrees) const;
  // The part of it that parameters have whose update is priced apart (matrices): clipping, unscaling, zeroing, casts.
  Breakdown around_update(std::int64_t elements, std::int64_t tensors, int site, const Degrees& degrees) const;
  // A backward pass adds the gradients of so many elements to those of earlier passes of the step, of which a microbatch has
  // `splits`: the mean over these passes. Zero where a profile measured the passes.
  Breakdown accumulation(std::int64_t elements, int splits, int site, const Degrees& degrees) const;

  // Time when host and device run in parallel: (device^4 + host^4)^(1/4), or their sum with synchronous launches. A launch takes
  // longer when one process launches for all ranks of a pipeline, and least on one rank.
  Duration host_bound(Duration device, const HostWork& work, int site, const Degrees& degrees) const;
  // Time that a compute piece loses while a collective of this length runs.
  Duration overlap_slowdown(Duration collective, int site = 0) const;
  // Factor on pass times for the slowest of the ranks and nodes in use, and for shared cores. The second form uses the devices of
  // the scenario's placement, or of the default one.
  double stage_jitter(const Degrees& degrees, const Occupancy& occupancy) const;
  double stage_jitter(const Degrees& degrees) const;
  double node_jitter(int nodes) const;  // the part due to the number of nodes

  // Bytes per parameter element that the framework, precision, optimizer and ZeRO stage keep.
  double parameter_bytes(const Degrees& degrees) const;  // weights in the compute format
  double gradient_bytes(const Degrees& degrees) const;
  double optimizer_bytes(
      const Degrees& degrees) const;                 // moments, and the fp32 master copy in mixed precision (ZeRO 1 divides both)
  double state_bytes(const Degrees& degrees) const;  // of one element of a moment
  Bytes framework_context() const;                   // 0 for in-place clusters
  double allocator_factor() const;                   // fragmentation, 1 for in-place clusters
  // By unit; empty for measured layers and in-place clusters.
  std::vector<UnitAllocations> unit_allocations(int site, bool copies_weights) const;
  Bytes loss_bytes_live() const;  // logits and their gradient while the loss runs; included in the loss unit's saved + temporary

  const Calibration& calibration(int device_type) const;
  // The model for sequences of another of the scenario's `lengths`: its workload has their tokens, its attention their samples.
  // This model is the one of the first. References stay valid.
  const CostModel& of_length(int length) const;

  const Scenario& scenario() const { return *scenario_; }
  const Workload& source() const { return *workload_; }

 private:
  double cast_traffic(int device_type, const Degrees& degrees) const;
  Breakdown step_of(std::int64_t elements, std::int64_t tensors, int site, const Degrees& degrees, bool updates) const;

  const Scenario* scenario_;
  const Workload* workload_;
  std::vector<Calibration> calibrations_;  // per device type
  std::shared_ptr<Sites> sites_;
  std::shared_ptr<LengthModels> lengths_;
  double narrow_weights_ = 0;  // share of the trained elements
};

// The table of `panpipe check --costs`: the model's costs with their sources.
std::string costs_table(const CostModel& model);
std::string costs_json(const CostModel& model);  // the same as a JSON document

}  // namespace panpipe
