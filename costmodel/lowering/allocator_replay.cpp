#include "costmodel/lowering/allocator_replay.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/index.hpp"
#include "costmodel/cost/unit_allocations.hpp"
#include "costmodel/lowering/allocation_history.hpp"
#include "costmodel/lowering/allocation_recorder.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/lowering/replayed_sharding.hpp"
#include "costmodel/lowering/replayed_tensors.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

bool is_expandable(const Scenario& scenario) { return scenario.framework.allocator == AllocatorModel::Expandable; }

constexpr int kMostWithResults = 32;  // microbatches that are replayed where none repeats another

constexpr int kMostUnequal = 64;  // the same of microbatches of unequal length

// The allocations of a site's units, by length of the microbatches.
using LengthAllocations = std::vector<std::vector<UnitAllocations>>;

class RankReplay {
 public:
  RankReplay(const Lowering& lowering, int rank, const LengthAllocations& units,
             std::int64_t capacity = ReplayedTensors::kEndless, AllocationRecorder* recorder = nullptr)
      : lowering_(lowering),
        rank_(rank),
        units_of_(units),
        units_(&units.front()),
        model_(lowering.scenario),
        tensors_(is_expandable(lowering.scenario), capacity, recorder),
        recorder_(recorder),
        others_{lowering.costs.parameter_bytes(), lowering.costs.gradient_bytes(), lowering.costs.optimizer_bytes()},
        experts_(lowering.costs.expert_bytes()),
        sharding_(lowering, tensors_) {
    const std::size_t in_flight = at(lowering.plan.pipeline) * lowering.stages_of_rank(rank).size();
    microbatches_ = std::min(lowering.plan.schedule.microbatches, static_cast<int>(in_flight) + 2);
    for (const int s : lowering.stages_of_rank(rank))  // each leaves its results between the others' memory
      if (lowering.stage(s).outputs > Bytes(0)) microbatches_ = std::min(lowering.plan.schedule.microbatches, kMostWithResults);
    if (lowering.lengths() > 1) microbatches_ = std::min(lowering.plan.schedule.microbatches, kMostUnequal);
    find_gives();
  }

  AllocatorOverhead run() {
    take_weights();
    for (int step = 0; step < 2; ++step) {
      give_space(Space::Outputs);  // the step before's
      for (const Action& action : lowering_.plan.schedule.order[rank_]) {
        if (!action.is_compute() || action.microbatch >= microbatches_) continue;
        if (recorder_) recorder_->begin(step + 1, &action);
        run_pass(action);
      }
      if (recorder_) recorder_->begin(step + 1, nullptr);
      join_outputs();
      run_optimizer();
    }
    return tensors_.overhead();
  }
  void finish(AllocationHistory& history) const { tensors_.finish(history); }
  bool failed() const { return tensors_.failed(); }
  std::int64_t reserved() const { return tensors_.reserved(); }

 private:
  using Tensors = ReplayedTensors;
  using Space = ReplaySpace;

  // A block of a stage, or a unit outside blocks: units [first, end).
  struct Part {
    int first = 0, end = 0;
    ReplayedSharding::Unit sharded;
  };

  const ElementBytes& bytes_of(const ParameterUse& use) const { return use.experts ? experts_ : others_; }

  // Each parameter once, in the order of its first use.
  template <class Visit>
  void each_parameter(Visit visit) const {
    each_first_use(lowering_, lowering_.stages_of_rank(rank_), [&](const ParameterUse& use, int) { visit(use); });
  }

  void give_space(Space space) { tensors_.give_space(static_cast<int>(space)); }

  void take_weights() {
    const bool late = model_.gradients_come_late(lowering_.plan);
    each_parameter([&](const ParameterUse& use) {
      const auto elements = static_cast<double>(use.elements);
      // FSDP's whole parameters between forward and backward are the passes' own.
      const double bytes =
          bytes_of(use).parameter - (sharding_.active() && lowering_.zero() == 2 ? sharding_.whole_element() : 0);
      tensors_.take(tensor_key(Space::Weights, use.tensor), elements * bytes + static_cast<double>(use.frozen.base()));
      if (!late) tensors_.take(tensor_key(Space::Gradients, use.tensor), elements * bytes_of(use).gradient);
    });
    if (lowering_.plan.replicas() == 1) return;
    double all = 0;
    for (const MemoryPart& part : lowering_.graph.memory[at(rank_)].parts)
      if (part.use == MemoryUse::GradientBuckets) all += static_cast<double>(part.bytes.base());
    const double one = std::max(1.0, static_cast<double>(lowering_.scenario.framework.gradient_bucket.base()));
    int number = 0;
    for (double left = all; left > 0; left -= one) tensors_.take(tensor_key(Space::Buckets, number++), std::min(left, one));
  }

  std::vector<Part> parts_of(const StageInfo& info) const {
    const std::vector<int> starts = recompute_groups(*info.cost, info.first_unit, info.end_unit, Recompute::None);
    std::vector<Part> parts;
    for (std::size_t k = 0; k < starts.size(); ++k) {
      const int first = starts[k], end = k + 1 < starts.size() ? starts[k + 1] : info.end_unit;
      parts.push_back({first, end, sharding_.of_block(info, first, end)});
    }
    return parts;
  }

  bool recomputes(const StageInfo& info, int u) const {
    const UnitCost& unit = info.unit(u);
    const int until = recompute_end(*info.cost, info.first_unit, info.end_unit, info.recompute_first);
    return info.recompute == Recompute::Full && u < until && !unit.block.empty() && unit.recomputes;
  }

  void forward(const StageInfo& info, const Part& part, int space) {
    for (int u = part.first; u < part.end; ++u)
      for (const AllocationStep& step : (*units_)[at(u)].forward) {
        const auto key = tensor_key(space, step.tensor);
        if (step.kind == AllocationStep::Kind::Take)
          tensors_.take(key, static_cast<double>(step.bytes));
        else if (info.outputs > Bytes(0) && tensors_.bytes(key) == info.unit(u).logits.base())
          tensors_.rename(key, tensor_key(Space::Outputs, space));
        else
          tensors_.give(key);
      }
  }

  // What units keep, without tensors that a later unit keeps too.
  void forget(const Part& part, int space) {
    for (int u = part.first; u < part.end; ++u)
      for (const int t : (*units_)[at(u)].kept)
        if (!reads_later(t, part.end)) tensors_.give(tensor_key(space, t));
  }
  bool reads_later(int tensor, int end) {
    const auto found = given_in_.find(tensor);
    return found != given_in_.end() && found->second >= end;
  }

  void run_pass(const Action& action) {
    const StageInfo& info = lowering_.stage(action.stage);
    length_ = lowering_.length_of(action);
    units_ = &units_of_[at(length_)];
    const int space = action.microbatch * lowering_.plan.schedule.stages + action.stage;
    if (action.kind == ActionKind::F) return run_forward(info, action.stage, space);
    if (action.kind == ActionKind::W) return run_weights(info, space);
    const bool apart = action.kind == ActionKind::I && info.weight_apart;
    if (starts_backward(action.kind)) run_backward(info, action.stage, space, !apart, action.microbatch + 1 == microbatches_);
  }

  void find_gives() {
    for (std::size_t u = 0; u < units_->size(); ++u)
      for (const AllocationStep& step : (*units_)[u].backward)
        if (step.kind == AllocationStep::Kind::Give) given_in_[step.tensor] = static_cast<int>(u);
  }

  double received(const std::vector<int>& edges, bool gradients) const {
    double bytes = 0;
    for (const int e : edges) {
      const StageEdge& edge = lowering_.edges[e];
      const StageLink& sent = edge.lengths[at(length_)];
      if (edge.forward_link >= 0) bytes += static_cast<double>(gradients ? sent.gradient_bytes : sent.bytes);
    }
    return bytes;
  }

  void run_forward(const StageInfo& info, int stage, int space) {
    tensors_.take(tensor_key(space, kReceived), received(lowering_.edges_in[stage], false));
    sharding_.gather(sharding_.of_root(info));
    for (const Part& part : parts_of(info)) {
      sharding_.gather(part.sharded);
      forward(info, part, space);
      if (recomputes(info, part.first)) forget(part, space);
      if (lowering_.zero() >= 3) sharding_.drop(part.sharded);
    }
    // FSDP 1 keeps its root to the backward.
    if (!sharding_.flat() && lowering_.zero() >= 3) sharding_.drop(sharding_.of_root(info));
  }

  // A weight gradient by itself gives back what the input gradient left: all that the forward kept, as PyTorch's pipelines do.
  void run_weights(const StageInfo& info, int space) {
    for (int u = info.end_unit; u > info.first_unit; --u)
      for (const AllocationStep& step : (*units_)[at(u - 1)].backward)
        if (step.kind == AllocationStep::Kind::WeightGradient) make_gradient(info, u - 1, step);
    tensors_.give_space(space);
  }

  void run_backward(const StageInfo& info, int stage, int space, bool all, bool last) {
    tensors_.take(tensor_key(space, kReceivedGradient), received(lowering_.edges_out[stage], true));
    const std::vector<Part> parts = parts_of(info);
    sharding_.gather(sharding_.of_root(info));
    for (std::size_t k = parts.size(); k-- > 0;) {
      const Part& part = parts[k];
      sharding_.gather(part.sharded);
      if (sharding_.flat() && k > 0) sharding_.gather(parts[k - 1].sharded);  // BackwardPrefetch.BACKWARD_PRE
      if (recomputes(info, part.first)) forward(info, part, space);
      for (int u = part.end; u > part.first; --u) backward(info, u - 1, space, all);
      sharding_.end_backward(part.sharded, last);
    }
    sharding_.end_backward(sharding_.of_root(info), last);
    if (all) tensors_.give_space(space);
  }

  void backward(const StageInfo& info, int u, int space, bool all) {
    const std::vector<int>& kept = (*units_)[at(u)].kept;
    for (const AllocationStep& step : (*units_)[at(u)].backward) {
      const auto key = tensor_key(space, step.tensor);
      if (step.kind == AllocationStep::Kind::Take)
        tensors_.take(key, static_cast<double>(step.bytes));
      else if (step.kind == AllocationStep::Kind::WeightGradient && all)
        make_gradient(info, u, step);
      else if (step.kind == AllocationStep::Kind::Give && (all || std::find(kept.begin(), kept.end(), step.tensor) == kept.end()))
        tensors_.give(key);
    }
  }

  // FSDP's has the format of the products, until its unit's are reduced.
  void make_gradient(const StageInfo& info, int u, const AllocationStep& step) {
    if (sharding_.active()) return tensors_.add_to(tensor_key(Space::NewGradient, step.tensor), static_cast<double>(step.bytes));
    for (const ParameterUse& use : info.unit(u).parameters)
      if (use.tensor == step.tensor)
        tensors_.add_to(tensor_key(Space::Gradients, step.tensor), static_cast<double>(use.elements) * bytes_of(use).gradient);
  }

  // torch.distributed.pipelining keeps the results of all microbatches to the next step's begin, and joins them in one more
  // tensor (torch/distributed/pipelining/schedules.py, _merge_outputs). Microbatches that are not replayed have theirs.
  void join_outputs() {
    double all = 0;
    for (const int s : lowering_.stages_of_rank(rank_)) {
      const Bytes each = lowering_.stage(s).outputs * lowering_.plan.schedule.splits;
      const int count = lowering_.plan.schedule.microbatches, stages = lowering_.plan.schedule.stages;
      for (int m = 0; m < count; ++m) tensors_.take(tensor_key(Space::Outputs, m * stages + s), static_cast<double>(each.base()));
      all += static_cast<double>((each * count).base());
    }
    tensors_.take(tensor_key(Space::Scratch, -1), all);
    tensors_.give(tensor_key(Space::Scratch, -1));
  }

  void run_optimizer() {
    const int count = std::max(1, moments(lowering_.scenario.optimizer.name));
    // States are made in the first step: of one parameter after another.
    each_parameter([&](const ParameterUse& use) {
      const double bytes = static_cast<double>(use.elements) * bytes_of(use).optimizer +
                           static_cast<double>(use.matrices.more_states) * bytes_of(use).state;
      for (int k = 0; k < count; ++k) tensors_.take(tensor_key(static_cast<int>(Space::States) - k, use.tensor), bytes / count);
    });
    const OptimizerTemporary temporary = lowering_.costs.optimizer_temporary();
    const bool divided = lowering_.zero() >= 1;
    each_parameter([&](const ParameterUse& use) {
      const double elements = static_cast<double>(use.elements) / (divided ? sharding_.shards(use.experts) : 1);
      const auto key = tensor_key(Space::Scratch, use.tensor);
      if (use.matrices.count > 0) {  // one after another
        tensors_.take(key, static_cast<double>(use.matrices.temporary.base()));
        return tensors_.give(key);
      }
      tensors_.take(key, elements * (temporary.all + temporary.largest));
      if (temporary.all == 0) tensors_.give(key);
    });
    give_space(Space::Scratch);
    if (model_.gradients_come_late(lowering_.plan)) give_space(Space::Gradients);
  }

  const Lowering& lowering_;
  const int rank_;
  const LengthAllocations& units_of_;
  const std::vector<UnitAllocations>* units_;  // of the pass that runs
  int length_ = 0;                             // of its microbatch
  const MemoryModel model_;
  Tensors tensors_;
  AllocationRecorder* const recorder_;
  const ElementBytes others_, experts_;
  ReplayedSharding sharding_;
  int microbatches_ = 0;
  std::unordered_map<int, int> given_in_;  // the unit whose backward gives a tensor back
};

// Not of stages and weights that come and go: the factor applies.
bool is_replayed(const Scenario& scenario, const Plan& plan) {
  const bool streams = streams_weights(scenario, plan) || scenario.offload.streams_activations() || scenario.offload.gradients;
  const bool whole = plan.schedule.vocabulary_barriers == 0;  // else ranks hold parts of units
  return !streams && whole && ways_of_stages(plan.schedule).empty() && scenario.framework.allocator != AllocatorModel::Factor &&
         scenario.memory_model == MemoryModelKind::Full;
}

// The lowering's stages and memory, and the allocations of a site's units.
struct Replayed {
  Lowering lowering;
  std::map<int, LengthAllocations> of_site = {};
  bool copies = false;

  Replayed(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs)
      : lowering(lowered_memory(scenario, plan, costs)), copies(MemoryModel(scenario).copies_weights(plan)) {}
  const LengthAllocations& units_of(int rank) {
    const StageInfo& info = lowering.stage(lowering.stages_of_rank(rank).front());
    const auto [found, is_new] = of_site.try_emplace(info.site);
    for (std::size_t length = 0; is_new && length < info.lengths.size(); ++length)
      found->second.push_back(lowering.costs.unit_allocations(info.lengths[length].site, copies));
    return found->second;
  }

  // Of the card, without the context; 0: not known.
  std::int64_t room_of(int rank) const {
    const RankMemory& memory = lowering.graph.memory[at(rank)];
    Bytes room = memory.limit;
    for (const MemoryPart& part : memory.parts)
      if (part.use == MemoryUse::Context) room -= part.bytes;
    return std::max<std::int64_t>(0, room.base());
  }

  // A card that is full makes PyTorch give unused segments back and try again: where that is enough, the room is the capacity.
  std::pair<AllocatorOverhead, std::int64_t> overhead_and_capacity(int rank, const LengthAllocations& units) const {
    RankReplay endless(lowering, rank, units);
    const AllocatorOverhead overhead = endless.run();
    const std::int64_t room = room_of(rank);
    if (room == 0 || endless.reserved() <= room) return {overhead, ReplayedTensors::kEndless};
    RankReplay full(lowering, rank, units, room);
    const AllocatorOverhead with_retries = full.run();
    if (full.failed()) return {overhead, ReplayedTensors::kEndless};
    return {with_retries, room};
  }
};

}  // namespace

std::vector<AllocatorOverhead> replay_allocator(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  if (!is_replayed(scenario, plan)) return {};
  Replayed replayed(scenario, plan, costs);
  std::vector<AllocatorOverhead> overheads;
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    const LengthAllocations& units = replayed.units_of(rank);
    if (units.front().empty()) return {};
    overheads.push_back(replayed.overhead_and_capacity(rank, units).first);
  }
  return overheads;
}

AllocationHistory record_allocations(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs,
                                     const OperatorGraph& graph, int rank) {
  AllocationHistory history;
  history.rank = rank;
  history.expandable_segments = is_expandable(scenario);
  if (!is_replayed(scenario, plan)) return history;
  Replayed replayed(scenario, plan, costs);
  const LengthAllocations& units = replayed.units_of(rank);
  if (units.front().empty()) return history;
  AllocationRecorder recorder(graph, units.front(), history);
  RankReplay replay(replayed.lowering, rank, units, replayed.overhead_and_capacity(rank, units).second, &recorder);
  replay.run();
  replay.finish(history);
  return history;
}

void apply_overheads(const std::vector<AllocatorOverhead>& overheads, TaskGraph& graph) {
  // Ranks of further replicas, where a graph has them, are like those of the first.
  for (std::size_t r = 0; r < graph.memory.size() && !overheads.empty(); ++r) {
    const AllocatorOverhead& overhead = overheads[r % overheads.size()];
    graph.memory[r].allocator_factor = overhead.reserved;
    graph.memory[r].rounding_factor = overhead.allocated;
  }
}

void apply_replay(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs, TaskGraph& graph) {
  apply_overheads(replay_allocator(scenario, plan, costs), graph);
}

}  // namespace panpipe
