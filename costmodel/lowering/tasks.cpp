// The tasks of every rank: its row of the schedule on the compute lane, exchanges between replicas on the data lane, offloads on
// the copy lane, and the optimizer at the end.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/lowering/host_traffic.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/lowering/part_gathers.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {

namespace {

PassSlot slot_of(ActionKind kind) {
  constexpr PassSlot kSlots[] = {PassSlot::Forward, PassSlot::Gradient, PassSlot::Weight, PassSlot::Gradient,
                                 PassSlot::Recompute};
  return kSlots[index_of(kind)];
}

class RankTasks {
 public:
  RankTasks(Lowering& lowering, int rank)
      : lowering_(lowering),
        rank_(rank),
        reductions_(rank_reductions(lowering, rank)),
        gathers_(lowering, rank, reductions_),
        host_(lowering, rank),
        passes_(lowering) {}

  void make() {
    const auto& row = lowering_.plan.schedule.order[rank_];
    std::size_t group_end = 0;  // position after the current group
    for (std::size_t position = 0; position < row.size(); ++position) {
      const Action& action = row[position];
      if (action.kind == ActionKind::Opt) {
        end_step();
        continue;
      }
      if (position >= group_end) {
        group_end = position + std::max<std::size_t>(1, action.group_size);
        for (std::size_t member = position; member < group_end && !gathers_.in_parts(position); ++member) add_gather(row[member]);
        begin_cell(row, position);
      }
      if (gathers_.in_parts(position)) {
        add_parts(action, contains(reductions_.stages_ending_at[position], action.stage));
        continue;
      }
      if (action.is_compute()) {
        if (host_.any()) host_.before(position, last_pass_);
        add_pass(action);
        if (host_.any()) host_.after(position, last_pass_);
      }
      if (action.is_vocabulary()) add_vocabulary_pass(action);
      if (is_copy(action.kind)) add_host_copy(action);
      const auto& ending = reductions_.stages_ending_at[position];
      ended_.insert(ended_.end(), ending.begin(), ending.end());
      if (position + 1 < group_end) continue;  // the members of a group stay together
      end_cell();
      for (const int stage : ended_) add_reduction(stage);
      ended_.clear();
    }
    if (steps_ended_ == 0) end_step();
  }

 private:
  void end_step() {
    for (const auto& shared : lowering_.graph.cross_rank_flows)
      if (std::find(shared.ranks.begin(), shared.ranks.end(), rank_) != shared.ranks.end())
        add_collective(ActionKind::ReduceGrad, -1, shared.flow, last_pass_);
    add_vocabulary_lane(lowering_, rank_);
    add_optimizer();
    for (const int stage : lowering_.stages_of_rank(rank_))
      if (!gathers_.wait_for_update(stage) && add_collective(ActionKind::Unshard, stage, flows_of(stage).update, last_pass_) >= 0)
        updated_ = last_collective_;
    ++steps_ended_;
  }

  // Of steps in a row: the gather of the updated parameters, for the first forward that reads them.
  std::int32_t awaited_update(const Action& action) {
    if (updated_ < 0 || steps_ended_ == 0 || action.kind != ActionKind::F) return -1;
    if (lowering_.step_of(action) < steps_ended_ + staleness(lowering_.plan.schedule)) return -1;
    return std::exchange(updated_, -1);
  }

  const StageFlows& flows_of(int stage) const { return reductions_.of_stage[stage]; }

  static bool contains(const std::vector<int>& stages, int stage) {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }

  // Part by part: the gathers for the next ones, the part after its own gather, and its reduction.
  void add_parts(const Action& action, bool reduces) {
    const StageInfo& info = lowering_.stage(action.stage);
    const PassParts& pass = lowering_.pass(action).parts;
    const RankPasses::Memory memory = passes_.next(action);
    const std::vector<PartTraffic> traffic = traffic_of(lowering_, action.stage, action.kind);
    const std::size_t parts = traffic.size();
    bool gathered = false;
    const std::int32_t before = last_pass_;
    for (std::size_t k = 0; k < parts; ++k) {
      std::int32_t gather = -1;
      const bool waits = traffic[k].gather >= 0 && flows_of(action.stage).group_gathers[traffic[k].gather] >= 0;
      if (waits) {
        const std::size_t tasks = lowering_.graph.tasks.size();
        gather = gathers_.gather_for_part(pass_before_);
        if (lowering_.graph.tasks.size() > tasks) last_collective_ = static_cast<std::int32_t>(lowering_.graph.tasks.size()) - 1;
        if (!gathered && lowering_.zero() >= 3) share_gathered(action, gather);
        gathered = true;
      }
      Task task = pass_task(action, memory);
      task.part = static_cast<std::uint16_t>(k);
      task.program = pass.programs[k];
      if (k > 0) task.take = Bytes(0);
      if (k + 1 < parts)
        task.give = task.gradients = Bytes(0);
      else
        task.output_steps = output_steps_of_part(action, pass.ends, k);
      if (k + 1 == parts && gathered && lowering_.zero() >= 3) task.give += info.gathered.at_once;
      last_pass_ = add(task, gather);
      if (waits) gathers_.part_is(last_pass_);
      if (reduces && traffic[k].reduce >= 0)
        add_collective(ActionKind::ReduceGrad, action.stage, flows_of(action.stage).group_reductions[traffic[k].reduce],
                       last_pass_);
    }
    pass_before_ = before;
    if (gathered && lowering_.zero() >= 3) gathered_pass_ = last_pass_;
    lowering_.task_of(slot_of(action.kind), action.stage, action.microbatch, action.split) = last_pass_;
  }

  // For the last part: the step at which its pass sends its output before its end.
  std::int32_t output_steps_of_part(const Action& action, const std::vector<std::int32_t>& ends, std::size_t part) const {
    const std::int32_t whole = output_steps(action, lowering_.pass(action).program, 0);
    const std::int32_t begin = part > 0 ? ends[part - 1] : 0;
    return whole > begin && whole < ends[part] ? whole - begin : -1;
  }

  std::int32_t add(const Task& task, std::int32_t after) { return lowering_.add(rank_, task, after); }

  std::int32_t add_collective(ActionKind kind, int stage, std::int32_t flow, std::int32_t after, std::int32_t point = -1) {
    const std::int32_t first = lowering_.add_collective(rank_, kind, stage, flow, after, point);
    if (first >= 0) last_collective_ = static_cast<std::int32_t>(lowering_.graph.tasks.size()) - 1;
    return first;
  }

  // ZeRO 3, members of a group: the parameters of a stage are gathered while the pass before runs.
  void add_gather(const Action& action) {
    if (!action.is_compute() || action.kind == ActionKind::W) return;
    const bool idle = action.kind == ActionKind::I && lowering_.backward_all_in_weight(action.stage);
    if (idle && !lowering_.stage(action.stage).parts.empty()) return;  // its W is the backward, in parts
    const std::int32_t flow = flows_of(action.stage).gather;
    const std::int32_t gather = add_collective(ActionKind::Unshard, action.stage, flow, pass_before_);
    if (gather < 0) return;
    lowering_.graph.tasks[gather].take = lowering_.stage(action.stage).gathered.at_once;
    whole_gathers_.push_back(gather);
  }

  void begin_cell(const std::vector<Action>& row, std::size_t first) {
    cell_tasks_.clear();
    members_ = row[first].is_compute() ? 1 : 0;
    program_ = -1;
    if (row[first].group_size > 1) {
      const std::vector<std::int32_t> alone = lowering_.programs_of_cell(row, first);
      members_ = alone.size();
      if (members_ > 1) program_ = lowering_.group_programs.at(alone);
    }
    woven_ = program_ >= 0 && !lowering_.graph.programs[program_].atomic;
  }

  // In a woven group the backward gives memory back while the forward takes it: only the difference shows.
  void end_cell() {
    if (!woven_) return;
    Bytes take(0), give(0), temporary(0);
    for (const std::int32_t t : cell_tasks_) {
      Task& task = lowering_.graph.tasks[t];
      take += task.take;
      give += task.give;
      temporary = std::max(temporary, task.temporary);
      task.take = task.give = task.temporary = Bytes(0);
    }
    Task& first = lowering_.graph.tasks[cell_tasks_.front()];
    first.take = std::max(take - give, Bytes(0));
    first.give = std::max(give - take, Bytes(0));
    first.temporary = temporary;
  }

  // When a pass's output leaves.
  std::int32_t output_steps(const Action& action, std::int32_t program, std::size_t member) const {
    const TransferRules& rules = lowering_.scenario.transfers;
    const Program& of = lowering_.graph.programs[program];
    if (of.atomic || (of.members > 1 && rules.braid_outputs == TransferRules::BraidOutputs::End)) return -1;
    const MemberEnds& ends = lowering_.member_ends[program][member];
    if (action.kind == ActionKind::B && rules.full_backward_sends == TransferRules::FullBackwardSends::InputGradient)
      return ends.gradient > 0 && ends.gradient < of.steps ? ends.gradient : -1;
    return of.members > 1 && ends.all > 0 ? ends.all : -1;
  }

  static Task pass_task(const Action& action, const RankPasses::Memory& memory) {
    Task task;
    task.kind = TaskKind::Pass;
    task.lane = Lane::Compute;
    task.action = action;
    task.take = memory.take;
    task.give = memory.give;
    task.temporary = memory.temporary;
    task.gradients = memory.gradients;
    return task;
  }

  void add_pass(const Action& action) {
    const StageInfo& info = lowering_.stage(action.stage);
    Task task = pass_task(action, passes_.next(action));
    task.group_size = static_cast<std::uint8_t>(cell_tasks_.empty() ? members_ : 0);
    task.program = program_ >= 0 ? program_ : lowering_.pass(action).program;
    task.output_steps = output_steps(action, task.program, cell_tasks_.size());
    std::int32_t gather = -1, after = awaited_update(action);
    if (!whole_gathers_.empty() && action.kind != ActionKind::W) {
      gather = whole_gathers_.front();
      whole_gathers_.erase(whole_gathers_.begin());
      task.give += info.gathered.at_once;
      share_gathered(action, gather);
      after = gather;
    }
    pass_before_ = last_pass_;
    last_pass_ = add(task, after);
    if (gather >= 0 || members_ > 1) gathered_pass_ = gather >= 0 && !woven_ ? last_pass_ : -1;
    cell_tasks_.push_back(last_pass_);
    note_vocabulary_maker(lowering_, rank_, action, last_pass_);
    lowering_.task_of(slot_of(action.kind), action.stage, action.microbatch, action.split) = last_pass_;
  }

  void add_vocabulary_pass(const Action& action) {
    last_pass_ = add(vocabulary_pass(lowering_, rank_, action), -1);
    note_vocabulary_maker(lowering_, rank_, action, last_pass_);
  }

  // Blocks are gathered and freed one by one, so a pass and the previous one that reads parameters share the same number of
  // blocks. Members of a woven group run in parallel and hold their own.
  void share_gathered(const Action& action, std::int32_t gather) {
    if (gathered_pass_ < 0 || (woven_ && !cell_tasks_.empty())) return;
    Task& before = lowering_.graph.tasks[gathered_pass_];
    const GatheredBlocks &held = lowering_.stage(before.action.stage).gathered, &next = lowering_.stage(action.stage).gathered;
    const auto forwards = [](ActionKind kind) { return kind == ActionKind::F || kind == ActionKind::R; };
    const bool from_first = forwards(before.action.kind), to_first = forwards(action.kind);
    const Bytes ends_with = from_first ? held.last : held.first, begins_with = to_first ? next.first : next.last;
    const bool same_block = before.action.stage == action.stage && (held.one_block || from_first != to_first);
    const Bytes between = same_block ? ends_with : ends_with + begins_with;
    const Bytes shared = held.at_once + next.at_once - std::max({held.at_once, next.at_once, between});
    before.give -= shared;
    lowering_.graph.tasks[gather].take -= shared;
  }

  // After the last pass; or in buckets during it, if it runs alone.
  void add_reduction(int stage) {
    const std::int32_t whole = flows_of(stage).reduce;
    const std::vector<std::int32_t>& flows = flows_of(stage).trains;
    const Task& pass = lowering_.graph.tasks[last_pass_];
    const bool alone = members_ == 1 && pass.action.stage == stage;  // not a pass of a cut vocabulary
    const auto points = alone ? lowering_.pass(pass.action).train_points : std::vector<std::int32_t>{};
    if (flows.empty() || points.empty())
      return static_cast<void>(add_collective(ActionKind::ReduceGrad, stage, whole, last_pass_));
    const std::int32_t backward = last_pass_;
    for (std::size_t k = 0; k < flows.size(); ++k) add_collective(ActionKind::ReduceGrad, stage, flows[k], backward, points[k]);
  }

  // An offload follows the pass before it and leaves the device when the copy ends; a reload takes memory when it starts.
  void add_host_copy(const Action& action) {
    const bool away = action.kind == ActionKind::Offload;
    // Before the input gradient what F kept; after it what the weight gradient still reads.
    const bool waiting = lowering_.task_of(PassSlot::Gradient, action.stage, action.microbatch, action.split) >= 0;
    const auto& passes = lowering_.stage(action.stage).passes[lowering_.slice_of(action)];
    const Bytes parked = waiting ? passes[index_of(ActionKind::W)].memory.give : passes[index_of(ActionKind::F)].memory.take;
    const std::int32_t copy = host_.copy(action, away, parked, last_pass_, Lane::Copy);
    const PassSlot slot = waiting ? PassSlot::ReloadWaiting : PassSlot::Reload;
    if (!away) lowering_.task_of(slot, action.stage, action.microbatch, action.split) = copy;
  }

  void add_optimizer() {
    Task task;
    task.kind = TaskKind::Optimizer;
    task.lane = Lane::Compute;
    task.action.kind = ActionKind::Opt;
    if (update_program_ < 0) update_program_ = add_optimizer_program(lowering_, rank_);
    task.program = update_program_;
    task.temporary = lowering_.graph.memory[rank_].end_of_step;
    last_pass_ = add(task, last_collective_);
  }

  Lowering& lowering_;
  int rank_;
  RankReductions reductions_;
  PartGathers gathers_;
  HostTraffic host_;
  RankPasses passes_;
  int steps_ended_ = 0;
  std::int32_t update_program_ = -1;         // of every step
  std::int32_t updated_ = -1;                // the last gather of parameters, if no pass waits for it yet
  std::vector<int> ended_;                   // stages whose gradients became whole inside the current group
  std::vector<std::int32_t> whole_gathers_;  // for passes in groups, not yet used by one
  std::size_t members_ = 0;                  // passes of the current cell
  std::int32_t program_ = -1;                // of a group
  bool woven_ = false;                       // its members run side by side
  std::vector<std::int32_t> cell_tasks_;     // those of its tasks that exist
  std::int32_t last_pass_ = -1;              // the last task of the compute lane
  std::int32_t gathered_pass_ = -1;          // the last pass of its own with gathered parameters
  std::int32_t pass_before_ = -1;            // and the one before it
  std::int32_t last_collective_ = -1;        // of the data lane
};

}  // namespace

std::int32_t Lowering::add(int rank, const Task& task, std::int32_t waits_for, std::int32_t point) {
  graph.tasks.push_back(task);
  graph.tasks.back().rank = rank;
  const auto added = static_cast<std::int32_t>(graph.tasks.size()) - 1;
  auto place = waits.end();  // before what the host's copies already stated of it
  while (place != waits.begin() && std::prev(place)->first == added) --place;
  if (waits_for >= 0) waits.insert(place, {added, {waits_for, -1, point}});
  return added;
}

std::int32_t Lowering::add_collective(int rank, ActionKind kind, int stage, std::int32_t flow, std::int32_t waits_for,
                                      std::int32_t point) {
  if (flow < 0) return -1;
  Task task;
  task.kind = TaskKind::Collective;
  task.lane = Lane::Data;
  task.action.kind = kind;
  task.action.stage = stage;
  task.flow = flow;
  const std::int32_t first = add(rank, task, waits_for, point);
  add_collective(rank, kind, stage, graph.flows[flow].next, -1);  // the lane's order is enough
  return first;
}

void make_tasks(Lowering& lowering) {
  const Schedule& schedule = lowering.plan.schedule;
  std::size_t actions = 0;
  for (const auto& row : schedule.order) actions += row.size();
  lowering.graph.tasks.reserve(actions + 4 * static_cast<std::size_t>(schedule.ranks));
  lowering.pass_task.assign(kPassSlots * static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(lowering.slices()),
                            -1);
  make_shared_flows(lowering);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    lowering.graph.rank_begin.push_back(static_cast<std::int32_t>(lowering.graph.tasks.size()));
    RankTasks(lowering, rank).make();
  }
  share_vocabulary_flows(lowering);
  share_ring_flows(lowering);
  lowering.graph.rank_begin.push_back(static_cast<std::int32_t>(lowering.graph.tasks.size()));
}

}  // namespace panpipe
