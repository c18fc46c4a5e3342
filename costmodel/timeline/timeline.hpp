// A timeline: the spans of every lane of every device. Every engine produces one, predicted or measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/run_cost/rl_step.hpp"
#include "costmodel/run_cost/run_cost.hpp"
#include "schedule/action.hpp"

namespace panpipe {

enum class TimelineKind : std::uint8_t { Estimated, Simulated, Measured };
std::string_view name_of(TimelineKind kind);  // "estimated", ...

struct Span {
  std::int32_t device = 0;
  Lane lane{};
  Action action;           // F/I/W/B/R, SendF..., ReduceGrad, Opt; sends include microbatch and stage
  std::string label;       // collectives: "all_reduce"; empty = the action's text
  std::int32_t peer = -1;  // the other device of a transfer
  Duration start{0}, end{0};
  Bytes bytes{0};             // transfers, collectives
  Duration waiting{0};        // of a pass: time inside it waiting for tensor-parallel collectives
  Duration alone{0};          // transfers and collectives: their duration on idle links; 0 = unknown
  std::int32_t flow_id = -1;  // shared by a send and its receive
};

struct MemorySample {
  Duration at{0};
  Bytes allocated{0};  // after the change
};

struct DeviceTimeline {
  std::int32_t device = 0;
  std::int32_t rank = 0;      // pipeline rank
  std::int32_t same_as = -1;  // >= 0: spans and memory equal that device's and are not repeated
  std::vector<MemorySample> memory;
  std::vector<MemoryPart> static_parts;
  // The composition of the peak: the static parts, then activations, temporary, fragmentation. Adds up to `peak`.
  std::vector<MemoryPart> peak_parts;
  Bytes allocated{0}, reserved{0};  // of the peak: tensors, and with the allocator's segments
  Bytes peak{0};
  Bytes limit{0};
};

// The cost of sharing, by link and by class of transfer. Simulation only.
struct LinkContention {
  std::string resource;
  Duration busy{0};        // time with at least one flow
  Duration shared{0};      // time with at least two
  Duration lost{0};        // sum over flows with this bottleneck: actual time - time alone
  int flows = 0;           // largest number of simultaneous flows
  double utilisation = 0;  // bytes carried / (capacity x step time)
};

// A measured step. Warm-up steps are not included.
struct MeasuredStep {
  double loss = 0;  // mean over microbatches and replicas
  Duration step_time{0};
};

struct Timeline {
  TimelineKind kind{};
  std::vector<DeviceTimeline> devices;
  std::vector<Span> spans;  // of devices with same_as < 0; sorted by (device, lane, start)
  Duration step_time{0};
  std::vector<LinkContention> contention;
  std::vector<MeasuredStep> steps;  // measured only; the spans are those of the step with the median time
  Duration clock_error{0};          // measured only: largest offset between the time axes of two devices
  Duration contention_lost{0};      // step time minus its value on idle links
  // Copied from the task graph, for metrics.
  std::int64_t trained_parameters = 0;
  Flops model_flops_per_step{0};
  double samples_per_step = 0;
  ComputeRate peak_per_device{0};
};

// --- timelines from task times, for both prediction engines ---
// Start and end of every task of the graph (rank view), and of every transfer's bytes in flight.
struct TaskTimes {
  std::vector<Ticks> task_start, task_end;
  std::vector<Ticks> transfer_start, transfer_end;
  std::vector<Ticks> transfer_alone;  // empty = as in the graph's links
  std::vector<Ticks> task_waiting;    // time for which a cell's lane did not compute, stored at its first task
  // A collective inside a pass.
  struct PassCollective {
    std::int32_t task = 0, step = 0;  // step: into TaskGraph::steps
    Ticks start{0}, end{0};
  };
  std::vector<PassCollective> collectives;
};
// Adds memory curves and peaks from the tasks' effects; the other devices of a rank refer to its first one (same_as).
Timeline make_timeline(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind);

// --- metrics ---
struct DeviceMetrics {
  std::int32_t device = 0, rank = 0;
  double step_time_s = 0;              // this device's last end
  double compute_s = 0;                // passes and optimizer, without waiting for tensor-parallel collectives
  double exposed_communication_s = 0;  // compute lane idle or waiting while a transfer or collective of this device runs
  double bubble_step = 0;              // idle share of the compute lane over the whole step
  double bubble_span = 0;              // idle share between the first start and the last end of its compute lane
  double allocated_memory_bytes = 0;   // tensors, as the allocator counts them
  double reserved_memory_bytes = 0;    // with the allocator's segments
  double peak_memory_bytes = 0;        // that the card needs, context included
  double memory_limit_bytes = 0;       // memory that a plan may fill; 0 = unknown
  bool fits = true;
};

// A measurement that moved a prediction. Half widths: of the 80 % interval, as a share of the step.
struct EvidencePiece {
  std::string file, kind;  // kind: "log", "runs", "collectives", "trace", "profile", "device"
  // sqrt(p90 / p10) - 1 of the step, with the pieces before this one, and with it too.
  double half_width_before = 0, half_width_after = 0;
  std::string what;      // "10 steps, 12 % longer than predicted"
  std::string left_out;  // reason; empty: it counts
};

// What the interval of a predicted step rests on (docs/models/uncertainty.md).
struct Evidence {
  std::vector<EvidencePiece> pieces;
  double p10_before_s = 0, p50_before_s = 0, p90_before_s = 0;  // without pieces; 0 where none counts
  std::string of_class;                                         // "dense, NVLink", "experts", ...; empty: no interval is stated
  std::vector<std::string> limits;                              // what the interval is made of: "half of it: host"
};

struct Metrics {
  double step_time_s = 0;
  double compute_s = 0;                // mean over devices
  double exposed_communication_s = 0;  // mean over devices
  double bubble_step = 0, bubble_span = 0;
  double allocated_memory_bytes = 0, reserved_memory_bytes = 0, peak_memory_bytes = 0;  // of the largest device
  double memory_limit_bytes = 0;                                                        // of the fullest device; 0 = unknown
  double memory_share = 0;  // the fullest device's peak over its limit
  bool fits = true;
  double parameters = 0;   // trained parameters of the whole model, a tied one counted once; 0 if unknown
  double model_flops = 0;  // per step
  double mfu = 0;          // 0 if the peak is unknown
  double samples_per_s = 0;
  // Predicted steps (docs/models/uncertainty.md): one run in ten is shorter, half are, one is longer; 0 = not stated.
  double step_time_p10_s = 0, step_time_p50_s = 0, step_time_p90_s = 0;
  Evidence evidence;
  // Steps in a row without a flush (docs/models/rolling.md): step_time_s is then their period. 0 = steps end with a flush.
  double period_s = 0, first_step_s = 0;            // first_step_s: from idle ranks to the last rank's first update
  int staleness = 0;                                // updates that a step's gradients do not know of yet
  double contention_s = 0;                          // simulated only
  double step_time_min_s = 0, step_time_max_s = 0;  // measured only: over the measured steps
  std::optional<RunCost> run;                       // predicted only: the cost of the whole run that the scenario states
  std::optional<RlStep> rl;                         // predicted only: with the rollouts that the scenario states
  std::vector<DeviceMetrics> per_device;
};
Metrics metrics(const Timeline& timeline);

}  // namespace panpipe
