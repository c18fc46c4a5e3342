// A plan lowered to tasks, which both prediction engines execute. There is one entry per pipeline rank: the devices of a rank do
// the same at the same time unless links are shared, and the simulation expands them where that matters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/lowering/memory_part.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "costmodel/plan/plan.hpp"
#include "schedule/action.hpp"

namespace panpipe {

enum class Lane : std::uint8_t { Compute, Tensor, Send, Receive, Data, Copy, Vocabulary };
constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::Vocabulary) + 1;
std::string_view name_of(Lane lane);  // "compute", "tensor", ...

// A collective as a flow. Each member sends `wire_bytes` to the next in its ring, or in an all-to-all equal parts of them to
// every other member. On idle links it takes latency + transfer.
struct CollectiveFlow {
  CollectiveCost cost;
  Ticks latency{0};
  Ticks transfer{0};          // wire time on idle links; latency + transfer = the collective's duration
  Among among = Among::Data;  // the group, if the flow is a task of its own; inside passes cost.among states it
  std::int32_t next =
      -1;  // flow that follows immediately, if it is a task of its own: it sums the results of a shard group's reduction
};

// A step of a program: compute of a given length, or a collective of one of the rank's groups.
struct ProgramStep {
  bool collective = false;
  bool free = false;        // compute that does not wait for the last collective of its pass (a weight gradient)
  bool chunk = false;       // compute that waits for all earlier collectives of its pass except the last
  std::uint8_t member = 0;  // of a group: the member that the step belongs to
  std::int32_t flow = -1;   // index into TaskGraph::flows
  Ticks time{0};            // alone; includes host effects in compute steps, excludes the slow-down by collectives
};

// The work of a stage's pass, or of a group of passes: steps on two lanes of a rank, compute and tensor-parallel collectives, by
// the rules of pass_lanes.hpp. All microbatches of one length share it. `duration` is exact on idle links where it is fixed
// (fixed_cells).
struct Program {
  std::int32_t first_step = 0, steps = 0;  // into TaskGraph::steps
  std::uint8_t members = 1;
  bool all_inputs = false;  // a group that starts when all inputs of all its members have arrived
  bool atomic = false;      // a group whose members run one after another: starts with all inputs, gives all outputs at its end
  double overlap_loss = 0;  // share of its time that a compute step loses while a collective runs
  Ticks duration{0};
  Ticks exposed_communication{0};  // part of duration spent waiting for collectives
  Breakdown breakdown;             // of the pass, on one device
};

enum class TaskKind : std::uint8_t { Pass, Collective, Optimizer, Offload, Reload };

// One entry of a lane. Tasks of one rank's lane run in their order in `tasks`.
struct Task {
  TaskKind kind{};
  Lane lane{};
  std::uint8_t group_size = 1;   // each pass of a group is a task; the first carries the group's size, the others 0
  std::uint16_t part = 0;        // index among the consecutive tasks of a pass that waits for its parameters block by block
  bool waits_for_sends = false;  // the next task of this lane starts only when this task's transfers have arrived
  std::int32_t rank = 0;
  Action action;                             // passes; collectives carry ReduceGrad/Unshard with their stage, optimizer Opt
  std::int32_t program = -1;                 // passes, optimizer, copies; the members of a group share one
  std::int32_t output_steps = -1;            // the output leaves after this many steps of the program, -1 = after all
  std::int32_t flow = -1;                    // collectives over data ranks, or over the two holders of a tied embedding
  std::int32_t first_input = 0, inputs = 0;  // into TaskGraph::inputs: the tasks (same or other rank) or transfers it waits for
  // Memory of one device of this rank: taken at the start, given back at the end, and the peak above live while the task runs.
  Bytes take{0}, give{0}, temporary{0};
  Bytes gradients{0};  // part of the static gradients that exists only after this task
};

// A dependency of a task.
struct Input {
  std::int32_t task = -1;      // producer
  std::int32_t transfer = -1;  // index into TaskGraph::transfers, or -1: a plain dependency
  std::int32_t point = -1;     // plain: index into TaskGraph::points, a point inside the producer; -1 = its end
};

// A point inside a lone pass: reached after `steps` steps of its program, on idle links `at` after its start.
struct PassPoint {
  std::int32_t program = 0, steps = 0;
  Ticks at{0};
};

// A hand-over of one microbatch between ranks. Each pipeline group sends its own over its own route.
struct Transfer {
  std::int32_t producer = 0;  // the transfer starts after this task's output: the task that makes it, or the last of its batch
  std::int32_t consumer = 0;  // task
  std::int32_t link = 0;      // into TaskGraph::links: its cost
  std::int32_t microbatch = 0;
  std::int32_t stage = 0;  // producing stage
  bool backward = false;
  std::int32_t taken_after = -1;  // batched: the receiver's task that must end before the transfer starts; -1 = none
};

// Hand-overs of one (producing stage, consuming stage, direction). Size and cost are the same for every microbatch of one length.
struct TransferLink {
  std::int32_t from_rank = 0, to_rank = 0;
  TransferCost cost;  // of the first pipeline group (data 0, tensor 0)
  Ticks latency{0};   // before the bytes flow, plus the gather after them
  Ticks transfer{0};  // of the bytes alone; latency + transfer = time on idle links
};

struct TaskGraph {
  int ranks = 0;
  Degrees degrees;
  // If a plan's replicas differ, each has its own ranks and the degrees have one replica: rank r of replica c is c * pipeline +
  // r.
  int replicas = 1;
  std::vector<int> devices;  // indexed by position (rank, replica, tensor), as in Plan
  std::vector<ProgramStep> steps;
  std::vector<Program> programs;
  std::vector<CollectiveFlow> flows;
  std::vector<Task> tasks;               // grouped by rank, in lane order within each (rank, lane)
  std::vector<std::int32_t> rank_begin;  // ranks + 1 offsets into tasks
  std::vector<Input> inputs;
  std::vector<PassPoint> points;
  std::vector<Transfer> transfers;
  std::vector<TransferLink> links;
  std::vector<RankMemory> memory;  // per rank
  std::vector<Bytes> limits;       // of each device's memory, indexed like `devices`; empty: the rank's limit applies
  // Participants of data-lane flows. Flow f of rank r runs over its CollectiveFlow::among of that rank, unless it is listed here.
  struct CrossRankFlow {
    std::int32_t flow;
    std::vector<std::int32_t> ranks;
  };
  bool collectives_run_on = false;  // the next pass may start before the last collectives of the previous one have ended
  bool rendezvous = false;          // transfers start when their receivers have ended Transfer::taken_after

  // Tied embeddings, and a vocabulary that is cut over ranks: ranks whose devices (same data, tensor index) take part; one task
  // per rank, all starting together.
  std::vector<CrossRankFlow> cross_rank_flows;

  // Figures that metrics need in addition to times.
  std::int64_t trained_parameters = 0;  // of the whole model; 0 when unknown
  Flops model_flops_per_step{0};        // all replicas, without recompute
  double samples_per_step = 0;
  double tokens_per_step = 0;      // 0: the model reads no tokens
  ComputeRate peak_per_device{0};  // dense, at the scenario's precision; 0 if unknown

  int device(int rank, int replica, int tensor_index) const {
    return devices[(rank * degrees.replicas() + replica) * degrees.tensor + tensor_index];
  }
  int pipeline_rank(int rank) const { return rank % (ranks / replicas); }
  int device_count() const { return static_cast<int>(devices.size()); }
};

TaskGraph lower(const Scenario& scenario, const Plan& plan, const CostModel& model);
TaskGraph lower(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);
// Lowers the plan as if all replicas were like this one. With `whole_reductions` replicas exchange whole stages, neither buckets
// nor blocks.
TaskGraph lower_replica(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs, int replica,
                        bool whole_reductions = false);

// The reason why no order of the tasks can finish: each rank's blocked task, and the cycle. Both engines use it.
struct Deadlock {
  std::vector<std::int32_t> blocked;  // per rank: the task that its compute lane cannot start, -1 if it finished
  std::vector<std::int32_t> cycle;    // tasks, each waiting for the next
};
std::string to_text(const Deadlock& deadlock, const TaskGraph& graph);  // several lines that name ranks and actions

}  // namespace panpipe
