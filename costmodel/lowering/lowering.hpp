// State that the files of the lowering share while one task graph is made. Private to this folder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/gathered_parts.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "costmodel/plan/stage_links.hpp"

namespace panpipe {

// Passes that a task can be found by: B counts as the pass that makes the input gradient, next to I.
enum class PassSlot : std::uint8_t { Forward, Gradient, Weight, Recompute, Reload, ReloadWaiting };
constexpr std::size_t kPassSlots = 6;

// Memory effects of one pass of a stage.
struct PassMemory {
  Bytes take{0}, give{0}, temporary{0};
};

// ZeRO 3: whole parameters of a stage while a pass runs.
struct GatheredBlocks {
  Bytes at_once{0};         // of neighbouring blocks that are whole together, as one runs and the next come: the most
  Bytes first{0}, last{0};  // of the blocks at the stage's ends
  bool one_block = false;
};

// A pass in parts, in the order in which it runs them.
struct PassParts {
  std::vector<std::int32_t> ends;      // how many steps of the whole pass's program come before the end of each; empty: no parts
  std::vector<std::int32_t> programs;  // of each
};

// What is exchanged at a part of a pass: the group that it is the first to read, and the one whose gradients are whole behind it.
struct PartTraffic {
  int gather = -1, reduce = -1;
};

// Buckets of a stage's gradients that are full as soon as the backward has done `unit`: so many of the whole size, and of the
// last train what is left over.
struct BucketTrain {
  int unit = 0;
  int whole = 0;
  Bytes rest{0};
  int expert_whole = 0;  // the same of experts that replicas share out
  Bytes expert_rest{0};
  bool empty() const { return whole == 0 && rest == Bytes(0) && expert_whole == 0 && expert_rest == Bytes(0); }
};

// A stage on its device: its units, its costs, and what its passes do.
struct StageInfo {
  int rank = 0;
  int site = 0;
  const WorkloadCost* cost = nullptr;  // of the site
  int first_unit = 0, end_unit = 0;
  Recompute recompute = Recompute::None;
  bool recompute_apart = false;  // the schedule has R actions for it
  bool weight_apart = false;     // the schedule splits its backward into I and W
  // Per slice of the sequence (one without splits), by ActionKind F, I, W, B, R. A program is -1 where the schedule has none.
  std::vector<std::array<int, 5>> programs{};
  std::vector<std::array<PassMemory, 5>> memory{};
  GatheredBlocks gathered{};
  // Gradients that are reduced beside their backward, in the order in which it makes them; empty: as a whole, behind it. And per
  // slice and pass where in it each train is ready: into TaskGraph::points, -1 = at its end.
  std::vector<BucketTrain> trains{};
  std::vector<std::array<std::vector<std::int32_t>, 5>> train_points{};
  // Ascending; none where no pass waits for parameters block by block. And per slice and pass.
  std::vector<GatheredPart> parts{};
  std::vector<std::array<PassParts, 5>> pass_parts{};

  int groups() const {
    int count = 0;
    for (const GatheredPart& part : parts) count = std::max(count, part.group + 1);
    return count;
  }
};

// Data that flows from one stage to another, and what it goes over.
struct StageEdge : StageLink {
  std::int32_t forward_link = -1, backward_link = -1;  // into TaskGraph::links; -1 on one rank
};

// A piece of one unit of a pass, neither merged with its neighbours nor slowed by collectives beside it: what programs are made
// of.
struct UnitPiece {
  double time = 0;  // compute, seconds
  std::int32_t flow = -1;
  bool collective = false;
  bool hidden = false;    // collective: in a lone pass what is computed behind it, up to a `closed` piece, runs meanwhile
  bool closed = false;    // compute: what follows waits for the collective that this one runs beside
  bool weight = false;    // compute of a weight gradient: needs no collective of its pass
  bool in_block = false;  // of a transformer layer, not of the embedding or the head
  bool tail = false;      // what a unit computes behind its collective: goes on with the next unit
  const UnitCost* unit = nullptr;
  bool synchronous = false;  // behind a meeting of host and device
  bool given = false;        // compute that neither the host nor jitter makes longer
  bool chunk = false;        // compute: waits for all collectives of its pass but the last
  int train = -1;            // behind it gradients of this train are whole
};

// A pass of a stage as the device would run it if the host were never late: what lone passes are timed from and groups woven of.
struct PassDraft {
  std::vector<UnitPiece> pieces;
  Breakdown breakdown;
  int launches = 0;
  int site = 0;
  std::vector<std::size_t> part_ends{};  // how many pieces come before the end of each part
};

// How many steps of a program there are up to the last of a member, and up to the last that its gradient needs.
struct MemberEnds {
  std::int32_t all = 0, gradient = 0;
};

struct Lowering {
  const Scenario& scenario;
  const Plan& plan;
  const LoweringCosts& costs;
  int replica = 0;                // the one that is lowered
  bool whole_reductions = false;  // replicas exchange a stage at a time, neither in buckets nor by block
  TaskGraph graph{};

  std::vector<StageInfo> stages{};
  std::vector<std::vector<int>> rank_stages{};  // per rank: its stages, ascending
  std::vector<StageEdge> edges{};
  std::vector<std::vector<int>> edges_in{}, edges_out{};  // per stage, into `edges`
  std::map<int, std::int32_t> flow_of_collective{};       // first flow of the collectives of a site's passes
  std::vector<std::int32_t> pass_task{};                  // by slot, stage, microbatch and split; -1 = none
  std::vector<Input> after{};                             // per task: one more task it waits for, -1 = none
  // Per program: what it was made of, and where its members end; and the programs of groups, by those of their members alone.
  std::vector<PassDraft> drafts{};
  std::vector<std::vector<MemberEnds>> member_ends{};
  std::map<std::vector<std::int32_t>, std::int32_t> group_programs{};

  bool backward_all_in_weight(int s) const {
    const std::vector<int>& in = edges_in[static_cast<std::size_t>(s)];
    const auto carries = [&](int e) { return edges[static_cast<std::size_t>(e)].gradient; };
    return panpipe::backward_all_in_weight(scenario, std::any_of(in.begin(), in.end(), carries));
  }
  // Whether a stage's gradients are made by its first backward, and not kept from step to step: so does that executor.
  bool gradients_come_late() const {
    return scenario.profile && plan.replicas() == 1 && scenario.precision == Precision::Fp32 &&
           scenario.memory_model == MemoryModelKind::Full;
  }
  int zero() const { return zero_in_effect(scenario.framework, plan); }
  int device(int rank) const { return plan.device(rank, replica, 0); }
  int slices() const { return plan.schedule.microbatches * plan.schedule.splits; }
  std::int32_t& task_of(PassSlot slot, int stage, int microbatch, int split) {
    const auto row =
        static_cast<std::size_t>(slot) * static_cast<std::size_t>(plan.schedule.stages) + static_cast<std::size_t>(stage);
    return pass_task[row * static_cast<std::size_t>(slices()) +
                     static_cast<std::size_t>(microbatch * plan.schedule.splits + (split < 0 ? 0 : split))];
  }
  std::size_t slice_of(const Action& action) const { return action.split < 0 ? 0 : static_cast<std::size_t>(action.split); }
  // Of the passes of the cell that starts there: one, or those of a group.
  std::vector<std::int32_t> programs_of_cell(const std::vector<Action>& row, std::size_t first) const {
    std::vector<std::int32_t> programs;
    for (std::size_t i = first; i < first + std::max<std::size_t>(1, row[first].group_size); ++i)
      if (row[i].is_compute())
        programs.push_back(stage(row[i].stage).programs[slice_of(row[i])][static_cast<std::size_t>(row[i].kind)]);
    return programs;
  }
  const std::vector<int>& stages_of_rank(int rank) const { return rank_stages[static_cast<std::size_t>(rank)]; }
  StageInfo& stage(int index) { return stages[static_cast<std::size_t>(index)]; }
  const StageInfo& stage(int index) const { return stages[static_cast<std::size_t>(index)]; }
  const WorkloadCost& workload(const StageInfo& info) const { return *info.cost; }
  const UnitCost& unit(const StageInfo& info, int index) const { return workload(info).units[static_cast<std::size_t>(index)]; }
};

inline std::size_t index_of(ActionKind pass) { return static_cast<std::size_t>(pass); }

// lower.cpp: fills Lowering::stages and rank_stages from the plan.
void make_stages(Lowering& lowering);

// programs.cpp: fills TaskGraph::flows, steps and programs, and StageInfo::program, for the passes and groups of the schedule.
void make_programs(Lowering& lowering);
// Collectives of passes become flows, one range per site in use. Under sequence splits each carries its share.
void add_collective_flows(Lowering& lowering, const std::vector<CollectiveCost>& collectives);
// Of the attention core's work, or of its scores, the share of a slice of the sequence.
double attention_share(const Lowering& lowering, const UnitCost& unit, int slice);
double score_share(const Lowering& lowering, const UnitCost& unit, int slice);
// Adds a program of one compute step.
std::int32_t add_plain_program(TaskGraph& graph, Duration time, const Breakdown& breakdown);

// Share of its time that compute loses while a collective runs beside it.
inline double overlap_loss(const LoweringCosts& costs, int site) { return costs.overlap_slowdown(Duration(1), site).base(); }

// transfers.cpp: edges between stages, links, and after the tasks exist their inputs and transfers.
void make_stage_edges(Lowering& lowering);
void connect_tasks(Lowering& lowering);

// batches.cpp: where transfers are batched, what each batch holds; docs/models/transfers.md.
void batch_transfers(Lowering& lowering);

// tasks.cpp: the tasks of every rank, in lane order.
void make_tasks(Lowering& lowering);
std::int32_t add_optimizer_program(Lowering& lowering, int rank);

// zero_and_reductions.cpp: StageInfo::trains of every stage.
void make_bucket_trains(Lowering& lowering);

// pass_parts.cpp: StageInfo::parts of every stage.
void make_stage_parts(Lowering& lowering);
// Whether a pass of this kind has parts, where its stage has.
bool has_parts(const Lowering& lowering, ActionKind kind);
// Per part of such a pass, in the order in which it runs them.
std::vector<PartTraffic> traffic_of(const Lowering& lowering, int stage, ActionKind kind);
GatheredBlocks gathered_blocks(const Lowering& lowering, const StageInfo& info);
// Whether gradients of its stage are whole behind an action.
bool ends_gradient(const Lowering& lowering, const Action& action);

// zero_and_reductions.cpp: what replicas exchange.
struct RankReductions {
  std::vector<std::vector<int>> stages_ending_at;  // per position of the rank's row: stages whose gradients are whole after it
  std::vector<std::int32_t> gather_flow;           // per stage, ZeRO 3: parameters before a pass; -1 = none
  std::vector<std::int32_t> reduce_flow;           // per stage: gradients; -1 = nothing to reduce
  std::vector<std::vector<std::int32_t>> group_gathers, group_reductions;  // per stage and group of its parts; -1 = nothing
  std::vector<std::vector<std::int32_t>> train_flows;                      // per stage: the same in trains of buckets
  std::vector<std::int32_t> update_flow;  // per stage: all-gather of updated parameters (ZeRO 1 and 2); -1 = none
  bool each_microbatch = false;           // ZeRO 2 and 3 reduce after every backward
};
RankReductions rank_reductions(Lowering& lowering, int rank);
// Gradients of parameters that several ranks hold: one flow per set of ranks. Fills cross_rank_flows.
void make_shared_flows(Lowering& lowering);

// memory.cpp: StageInfo::memory of every stage, and TaskGraph::memory.
void make_memory(Lowering& lowering);

// Parameters of a rank, each counted once (a tied parameter of two of its stages is one).
struct HeldParameters {
  std::int64_t elements = 0;  // trained, of this tensor-parallel rank's shards
  std::int64_t experts = 0;   // of these, parts of experts that other ranks of the stage have other parts of
  Bytes given{0};             // measured layers
  Bytes frozen{0}, copies{0}, narrower{0};
  Bytes expert_frozen{0}, expert_copies{0}, expert_narrower{0};  // of these, the experts'

  // Of them, what a step updates.
  HeldParameters trained() const {
    HeldParameters those = *this;
    those.frozen = those.expert_frozen = Bytes(0);
    those.narrower = trained_narrower, those.expert_narrower = expert_trained_narrower;
    return those;
  }
  Bytes trained_narrower{0}, expert_trained_narrower{0};  // of `narrower`, that of what is trained

  void add(const ParameterUse& use) {
    elements += use.elements;
    given += use.given;
    frozen += use.frozen;
    copies += use.copies;
    narrower += use.narrower;
    if (use.elements > 0) trained_narrower += use.narrower;
    if (!use.experts) return;
    if (use.elements > 0) expert_trained_narrower += use.narrower;
    experts += use.elements;
    expert_frozen += use.frozen;
    expert_copies += use.copies;
    expert_narrower += use.narrower;
  }
  void add(const HeldParameters& more) {
    elements += more.elements;
    experts += more.experts;
    given += more.given;
    frozen += more.frozen;
    copies += more.copies;
    narrower += more.narrower;
    expert_frozen += more.expert_frozen;
    expert_copies += more.expert_copies;
    expert_narrower += more.expert_narrower;
    trained_narrower += more.trained_narrower;
    expert_trained_narrower += more.expert_trained_narrower;
  }
  // What all replicas hold alike, and what they do not.
  HeldParameters others() const {
    return {.elements = elements - experts,
            .given = given,
            .frozen = frozen - expert_frozen,
            .copies = copies - expert_copies,
            .narrower = narrower - expert_narrower};
  }
  HeldParameters only_experts() const {
    return {.elements = experts,
            .experts = experts,
            .frozen = expert_frozen,
            .copies = expert_copies,
            .narrower = expert_narrower,
            .expert_frozen = expert_frozen,
            .expert_copies = expert_copies,
            .expert_narrower = expert_narrower};
  }
};
HeldParameters held_parameters(const Lowering& lowering, const std::vector<int>& stages);
// Of these, those whose gradients are summed over other ranks too: those of the other replicas, other holders of the same
// parameter.
HeldParameters summed_parameters(const Lowering& lowering, int rank);
Bytes gradient_size(const Lowering& lowering, const HeldParameters& held);
// Of a group of a stage's parts.
HeldParameters group_parameters(const Lowering& lowering, const StageInfo& info, int group);
// Weights as the passes read them.
Bytes weight_size(const Lowering& lowering, const HeldParameters& held);

// pass_parts.cpp: StageInfo::pass_parts of a stage, once it is known what is exchanged beside them.
void add_part_programs(Lowering& lowering, int stage, const RankReductions& reductions);
// pass_steps.cpp: adds the program of steps [begin, end) of another, beside so long a time of collectives over replicas.
std::int32_t add_part_program(Lowering& lowering, std::int32_t whole, std::int32_t begin, std::int32_t end, Ticks beside);

}  // namespace panpipe
