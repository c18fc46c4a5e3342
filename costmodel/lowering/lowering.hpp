// State shared by the files of the lowering while they build one task graph. Private to this folder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/lowering/attention_exchange.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/lowering/vocabulary.hpp"
#include "costmodel/plan/gathered_parts.hpp"
#include "costmodel/plan/held_parameters.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "costmodel/plan/memory_model.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "costmodel/plan/replica_traffic.hpp"
#include "costmodel/plan/stage_links.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {

// Pass kinds for looking up tasks. B is stored as the pass that makes the input gradient, like I.
enum class PassSlot : std::uint8_t { Forward, Gradient, Weight, Recompute, Reload, ReloadWaiting, Parked };
constexpr std::size_t kPassSlots = 7;

// Memory effects of one pass of a stage.
struct PassMemory {
  Bytes take{0}, give{0}, temporary{0};
};

// ZeRO 3: whole parameters of a stage held while a pass runs.
struct GatheredBlocks {
  Bytes at_once{0};         // the most of neighbouring blocks that are whole together, while one runs and the next ones arrive
  Bytes first{0}, last{0};  // of the blocks at the stage's ends
  bool one_block = false;
};

// A pass divided into parts, in running order.
struct PassParts {
  std::vector<std::int32_t> ends;      // steps of the whole pass's program before the end of each part; empty: not divided
  std::vector<std::int32_t> programs;  // of each part
};

// The exchanges at a part of a pass: the group that the part reads first, and the group whose gradients it completes.
struct PartTraffic {
  int gather = -1, reduce = -1;
};

// Buckets of a stage's gradients that become full when the backward has finished `unit`, with the remainder in the last train: of
// parameters that all replicas hold, and of experts that they divide.
struct BucketTrain {
  int unit = 0;
  Pieces others, experts;
  bool empty() const { return others.empty() && experts.empty(); }
};

// The site of a stage's passes over microbatches of one length, with its costs.
struct LengthSite {
  int site = 0;
  const WorkloadCost* cost = nullptr;
};

// A stage on its device: its units and their costs.
struct StageUnits {
  int rank = 0;
  int site = 0;
  const WorkloadCost* cost = nullptr;  // of the site, for the longest microbatches
  int first_unit = 0, end_unit = 0;
  Recompute recompute = Recompute::None;
  int recompute_first = 0;       // number of blocks, from its first, to which the mode applies; 0 = all
  bool recompute_apart = false;  // the schedule has R actions for this stage
  bool weight_apart = false;     // the schedule splits its backward into I and W
  MovedKeys moved{};             // for one slice
  // Gradients that are reduced while their backward runs, in the order in which it makes them; empty: reduced as a whole
  // afterwards.
  std::vector<BucketTrain> trains{};
  std::vector<GatheredPart> parts{};  // ascending; empty if no pass waits for parameters block by block

  const UnitCost& unit(int index) const { return cost->units[static_cast<std::size_t>(index)]; }
  int groups() const {
    int count = 0;
    for (const GatheredPart& part : parts) count = std::max(count, part.group + 1);
    return count;
  }
};

// A pass of a stage over a slice. A program is -1 if the schedule lacks the pass.
struct StagePass {
  bool used = false;
  int program = -1;
  PassMemory memory{};
  std::vector<std::int32_t> train_points{};  // at which each train is ready, into TaskGraph::points (-1 = at the end)
  PassParts parts{};
};

// With its passes. Slices number what the passes of a kind differ in: the slices of the sequence (one without splits), for each
// length of microbatches; or those that share their attention behind those that do not.
struct StageInfo : StageUnits {
  std::vector<LengthSite> lengths{};  // of each length; the first is `site`
  int first_microbatch = 0;           // of the step: each forward path numbers its own from 0, and they follow one another
  std::vector<std::array<StagePass, 5>> passes{};  // per slice, by ActionKind F, I, W, B, R
  Bytes outputs{0};                                // of a forward, which stay to the end of the step
  Bytes late_gradients{0};                         // that the first backward allocates
  GatheredBlocks gathered{};
};

// The data flow from one stage to another, of the longest microbatches, with its links.
struct StageEdge : StageLink {
  bool forth = true;  // false: where forward and backward are cut apart, an edge of the backward
  // Into TaskGraph::links: that of the longest, which those of the other lengths follow; -1 within one rank.
  std::int32_t forward_link = -1, backward_link = -1;
  std::vector<StageLink> lengths{};  // of each length
};

// A piece of one unit of a pass, before merging with its neighbours and without slow-down by collectives. Programs are made of
// pieces.
struct UnitPiece {
  double time = 0;  // compute, seconds
  std::int32_t flow = -1;
  bool collective = false;
  bool hidden = false;    // collective: in a lone pass the following compute, up to a `closed` piece, runs meanwhile
  bool closed = false;    // compute: the next piece waits for the collective that runs next to this one
  bool weight = false;    // compute of a weight gradient: needs no collective of its pass
  bool in_block = false;  // in a transformer layer, not in the embedding or the head
  bool tail = false;      // compute of a unit after its collective: continues with the next unit
  const UnitCost* unit = nullptr;
  bool synchronous = false;  // after a synchronisation of host and device
  bool given = false;        // compute that neither the host nor jitter prolongs
  bool chunk = false;        // compute: waits for all collectives of its pass except the last
  int train = -1;            // this piece completes the gradients of this train
};

// A pass of a stage on a device whose host is never late. Lone passes are timed from it and groups woven of it.
struct PassDraft {
  std::vector<UnitPiece> pieces;
  Breakdown breakdown;
  HostWork host;
  int site = 0;
  std::vector<std::size_t> part_ends{};  // pieces before the end of each part
  std::vector<HostWork> part_host{};     // of each part
};

// Steps of a program up to the last step of a member, and up to the last one that its gradient needs.
struct MemberEnds {
  std::int32_t all = 0, gradient = 0;
};

struct Lowering {
  const Scenario& scenario;
  const Plan& plan;
  const LoweringCosts& costs;
  int replica = 0;                // the replica being lowered
  bool whole_reductions = false;  // replicas exchange whole stages, neither buckets nor blocks
  int steps = 1;                  // in a row, of a schedule that rolls; OPT ends each in a rank's row
  TaskGraph graph{};

  std::vector<StageInfo> stages{};
  std::vector<std::vector<int>> rank_stages{};  // per rank: its stages, ascending
  std::vector<StageEdge> edges{};
  std::vector<std::vector<int>> edges_in{}, edges_out{};  // per stage, into `edges`
  std::map<int, std::int32_t> flow_of_collective{};       // first flow of the collectives of a site's passes
  std::vector<std::int32_t> pass_task{};                  // by slot, stage, microbatch and split; -1 = none
  // What tasks wait for in addition to what their kinds imply, ascending by task.
  std::vector<std::pair<std::int32_t, Input>> waits{};
  // Of copies that no action states (host_traffic.hpp): those that bring what stages on any rank parked; per rank the last that
  // takes gradients away, -1 = none.
  std::vector<std::int32_t> taken_from_host{}, last_gradients{};
  std::vector<std::int32_t> ring_flows{};  // ring_traffic.hpp; empty if weights do not go round the ranks
  // Per program: the draft it was made from, and where its members end. group_programs finds a group's program by those of its
  // members.
  std::vector<PassDraft> drafts{};
  std::vector<std::vector<MemberEnds>> member_ends{};
  std::map<std::vector<std::int32_t>, std::int32_t> group_programs{};
  VocabularyWork vocabulary{};
  AttentionExchange attention{};

  bool backward_all_in_weight(int s) const {
    if (plan.schedule.vocabulary_barriers > 0) return false;  // the embedding waits for the first stage's input gradient
    const std::vector<int>& in = edges_in[s];
    const auto carries = [&](int e) { return edges[e].gradient; };
    return panpipe::backward_all_in_weight(scenario.framework, std::any_of(in.begin(), in.end(), carries));
  }
  int zero() const { return zero_in_effect(scenario.framework, plan); }
  int device(int rank) const { return plan.device(rank, replica, 0); }
  int slices() const { return plan.schedule.microbatches * plan.schedule.splits; }  // of all steps
  int microbatches_of_step() const { return plan.schedule.microbatches / steps; }
  int slices_of_step() const { return slices() / steps; }
  bool rolls() const { return steps > 1; }
  int lengths() const { return plan.lengths.empty() ? 1 : static_cast<int>(scenario.lengths.shapes.size()); }
  std::int32_t& task_of(PassSlot slot, int stage, int microbatch, int split) {
    const auto row =
        static_cast<std::size_t>(slot) * static_cast<std::size_t>(plan.schedule.stages) + static_cast<std::size_t>(stage);
    return pass_task[row * static_cast<std::size_t>(slices()) +
                     static_cast<std::size_t>(microbatch * plan.schedule.splits + (split < 0 ? 0 : split))];
  }
  // The step in a row of a pass's microbatch, and its length.
  int step_of(const Action& action) const { return action.microbatch / microbatches_of_chain(plan.schedule, steps); }
  int length_of(const Action& action) const {
    const int of_step = action.microbatch % microbatches_of_chain(plan.schedule, steps);
    return plan.length_of(replica, stage(action.stage).first_microbatch + of_step);
  }
  std::size_t slice_of(const Action& action) const {
    const bool shares = attention.shared.of(action) != nullptr;
    return at((shares ? 1 : length_of(action)) * plan.schedule.splits + std::max<int>(action.split, 0));
  }
  StagePass& pass(const Action& action) { return stage(action.stage).passes[slice_of(action)][at(action.kind)]; }
  const StagePass& pass(const Action& action) const { return stage(action.stage).passes[slice_of(action)][at(action.kind)]; }
  int length_of_slice(int slice) const { return lengths() > 1 ? slice / plan.schedule.splits : 0; }
  // The programs of the passes in the cell that starts at `first`: one, or those of a group.
  std::vector<std::int32_t> programs_of_cell(const std::vector<Action>& row, std::size_t first) const {
    std::vector<std::int32_t> programs;
    for (std::size_t i = first; i < first + std::max<std::size_t>(1, row[first].group_size); ++i)
      if (row[i].is_compute()) programs.push_back(pass(row[i]).program);
    return programs;
  }
  const std::vector<int>& stages_of_rank(int rank) const { return rank_stages[rank]; }
  StageInfo& stage(int index) { return stages[index]; }
  const StageInfo& stage(int index) const { return stages[index]; }

  // Appends a task of a rank, which waits for another one in addition to what its kind implies (-1: for none), or for a point
  // inside that. Returns its number.
  std::int32_t add(int rank, const Task& task, std::int32_t waits_for, std::int32_t point = -1);
  std::int32_t add_collective(int rank, ActionKind kind, int stage, std::int32_t flow, std::int32_t waits_for,
                              std::int32_t point = -1);
  // Returns its number, as the next ones do.
  std::int32_t add_flow(const CollectiveCost& cost, Among among = Among::Data);
  // Of all ranks of the pipeline.
  std::int32_t add_pipeline_flow(CollectiveKind kind, Bytes bytes);
  std::vector<std::int32_t> all_ranks() const;
  // Measures the program on idle links.
  std::int32_t add(Program program);
  // A program of one compute step.
  std::int32_t add_plain_program(Duration time, const Breakdown& breakdown);
};

inline std::size_t index_of(ActionKind pass) { return static_cast<std::size_t>(pass); }

// lower.cpp: fills Lowering::stages and rank_stages from the plan.
void make_stages(Lowering& lowering);
// The stage for a slice's length, without its passes.
StageUnits stage_of_slice(const Lowering& lowering, const StageInfo& info, int slice);

// programs.cpp: fills TaskGraph::flows, steps and programs, and StageInfo::program, for the passes and groups of the schedule.
void make_programs(Lowering& lowering);
// Turns collectives of passes into flows, one range per site in use. Under sequence splits each carries its share.
void add_collective_flows(Lowering& lowering, const std::vector<CollectiveCost>& collectives);
// A slice's share of the attention core's work, or of its scores. `moved`: MovedKeys::slices.
double attention_share(const Lowering& lowering, const UnitCost& unit, int slice, int moved);
double score_share(const Lowering& lowering, const UnitCost& unit, int slice);

// Share of its time that compute loses while a collective runs.
inline double overlap_loss(const LoweringCosts& costs, int site) { return costs.overlap_slowdown(Duration(1), site).base(); }

// transfers.cpp: edges between stages and links; once the tasks exist, their inputs and transfers. add_link() adds one between
// two ranks for so many bytes, and returns its number.
std::int32_t add_link(Lowering& lowering, int from_rank, int to_rank, Bytes bytes);
void make_stage_edges(Lowering& lowering);
void connect_tasks(Lowering& lowering);

// batches.cpp: the contents of each batch, if transfers are batched; docs/models/transfers.md.
void batch_transfers(Lowering& lowering);

// tasks.cpp: the tasks of every rank, in lane order.
void make_tasks(Lowering& lowering);
// optimizer_step.cpp: the program of a rank's update, with what its copies between device and host make it longer.
std::int32_t add_optimizer_program(Lowering& lowering, int rank);

// matrix_step.cpp: matrices that a rank's optimizer steps whole, on the replica that has most of them to do.
struct MatrixStep {
  Breakdown cost;                    // with the exchanges that bring shards together
  Bytes temporary{0};                // of the largest
  std::int64_t elements = 0;         // elements of the matrices of the replica that holds most, beyond an even share
  std::int64_t expert_elements = 0;  // the same of experts
};
MatrixStep matrix_step(const Lowering& lowering, int rank);

// Of copies between the device's memory and the host's while all devices of the plan copy. Throws InputError where there is none:
// "which <needed>".
Bandwidth copy_rate(const Lowering& lowering, int device, bool away, std::string_view needed);
// Of what streams between a rank's device and its host (HostedState); of the first device where a plan's are not yet chosen.
Bandwidth stream_rate(const Lowering& lowering, int rank, bool away);

// zero_and_reductions.cpp: StageInfo::trains of every stage.
void make_bucket_trains(Lowering& lowering);

// pass_parts.cpp: StageInfo::parts of every stage.
void make_stage_parts(Lowering& lowering);
// True if passes of this kind are divided when their stage is.
bool has_parts(const Lowering& lowering, ActionKind kind);
// One entry per part of such a pass, in running order.
std::vector<PartTraffic> traffic_of(const Lowering& lowering, int stage, ActionKind kind);
GatheredBlocks gathered_blocks(const Lowering& lowering, const StageInfo& info);
// True if the action completes gradients of its stage.
bool ends_gradient(const Lowering& lowering, const Action& action);

// zero_and_reductions.cpp: exchanges between replicas.
// Groups of a rank's devices that do the same at the same time. The first of each tensor index comes first and represents those
// that are alike.
using DeviceGroups = std::vector<std::vector<int>>;
DeviceGroups groups_of(const Lowering& lowering, int rank, Among among);
struct StageFlows {                                           // -1 = none
  std::int32_t gather = -1;                                   // ZeRO 3: of parameters before a pass
  std::int32_t reduce = -1;                                   // of gradients
  std::int32_t update = -1;                                   // all-gather of updated parameters (ZeRO 1 and 2)
  std::vector<std::int32_t> group_gathers, group_reductions;  // per group of its parts
  std::vector<std::int32_t> trains;                           // reductions in trains of buckets
};
struct RankReductions {
  std::vector<std::vector<int>> stages_ending_at;  // per position of the rank's row: stages whose gradients are complete after it
  std::vector<StageFlows> of_stage;
  bool each_microbatch = false;  // ZeRO 2 and 3 reduce after every backward, unless gradients are unsharded until the last
};
RankReductions rank_reductions(Lowering& lowering, int rank);
// Gradients of parameters that several ranks hold: one flow per set of ranks. Fills cross_rank_flows.
void make_shared_flows(Lowering& lowering);

// rank_memory.cpp: StageInfo::memory of every stage, and TaskGraph::memory.
void make_memory(Lowering& lowering);
// Stages with their memory, for callers that need no tasks.
Lowering lowered_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

// What the passes of a rank take, give back and need, asked for in the order of its row.
class RankPasses {
 public:
  explicit RankPasses(const Lowering& lowering) : lowering_(lowering), with_gradients_(lowering.stages.size(), false) {}
  struct Memory : PassMemory {
    Bytes gradients{0};  // that the pass leaves, of those that count as there all the time
  };
  Memory next(const Action& action);

 private:
  const Lowering& lowering_;
  std::vector<bool> with_gradients_;  // stages whose gradients exist
  int with_outputs_ = 0;              // slices whose results wait for the end of the step
};

// Parameters of a rank's stages, each counted once, even if it is tied between two of them.
HeldParameters held_parameters(const Lowering& lowering, const std::vector<int>& stages);
// Those of held_parameters() whose gradients are also summed over other ranks: other replicas, or other holders of the same
// parameter.
HeldParameters summed_parameters(const Lowering& lowering, int rank);
Bytes gradient_size(const Lowering& lowering, const ParameterSums& sums);
inline Bytes gradient_size(const Lowering& lowering, const HeldParameters& held) {
  return gradient_size(lowering, held.others) + gradient_size(lowering, held.experts);
}
Bytes weight_size(const Lowering& lowering, const ParameterSums& sums);
inline Bytes weight_size(const Lowering& lowering, const HeldParameters& held) {
  return weight_size(lowering, held.others) + weight_size(lowering, held.experts);
}
// Calls visit(use, unit) for each use of a parameter by units [first, end) of a stage that is the first.
template <class Visit>
void each_first_use(const StageUnits& stage, int first, int end, FirstUses& is_first, Visit visit) {
  for (int u = first; u < end; ++u)
    for (const ParameterUse& use : stage.unit(u).parameters)
      if (is_first(use, u)) visit(use, u);
}
// In several stages.
template <class Visit>
void each_first_use(const Lowering& lowering, const std::vector<int>& stages, Visit visit) {
  FirstUses is_first;
  for (const int s : stages)
    each_first_use(lowering.stage(s), lowering.stage(s).first_unit, lowering.stage(s).end_unit, is_first, visit);
}

// pass_parts.cpp: fills StagePass::parts of a stage, once its exchanges are known.
void add_part_programs(Lowering& lowering, int stage, const RankReductions& reductions);
// pass_steps.cpp: adds a program of steps [begin, end) of another, of which collectives over replicas overlap the first `overlap`
// ticks.
std::int32_t add_part_program(Lowering& lowering, std::int32_t whole, std::int32_t begin, std::int32_t end, Ticks overlap);

}  // namespace panpipe
