#include "costmodel/lowering/allocator_replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "base/index.hpp"
#include "costmodel/cost/unit_allocations.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/memory/caching_allocator.hpp"
#include "costmodel/plan/stage_activations.hpp"

namespace panpipe {
namespace {

// FSDP gathers parameters and reduces gradients on streams of its own, whose memory no other stream takes.
enum Stream : int { kCompute = 0, kGathers = 1, kReductions = 2 };

// Numbers of tensors that no unit has: below 0.
enum Own : int { kReceived = -1, kReceivedGradient = -2, kOutputs = -3 };

// The allocator, and the tensors in it.
class Tensors {
 public:
  using Key = std::uint64_t;
  static Key key(int space, int tensor) {
    return (static_cast<Key>(static_cast<std::uint32_t>(space)) << 32) | static_cast<std::uint32_t>(tensor);
  }

  explicit Tensors(const AllocatorSettings& settings) : allocator_(settings, std::numeric_limits<std::int64_t>::max() / 2) {}

  void take(Key key, double bytes, int stream = kCompute) {
    const auto whole = static_cast<std::int64_t>(std::ceil(bytes));
    if (whole <= 0 || live_.contains(key)) return;
    live_[key] = {*allocator_.allocate(whole, stream), whole};
    wanted_ += whole;
    most_ = std::max(most_, wanted_);
  }
  void give(Key key) {
    const auto found = live_.find(key);
    if (found == live_.end()) return;
    allocator_.free(found->second.address);
    wanted_ -= found->second.bytes;
    live_.erase(found);
  }
  bool holds(Key key) const { return live_.contains(key); }
  template <class Gone>
  void give_all(Gone gone) {
    std::vector<Key> keys;
    for (const auto& [key, block] : live_)
      if (gone(key)) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    for (const Key key : keys) give(key);
  }
  AllocatorOverhead overhead() const {
    if (most_ == 0) return {};
    const auto most = static_cast<double>(most_);
    return {static_cast<double>(allocator_.peak_allocated()) / most, static_cast<double>(allocator_.peak_reserved()) / most};
  }

 private:
  struct Held {
    CachingAllocator::Address address = 0;
    std::int64_t bytes = 0;
  };
  CachingAllocator allocator_;
  std::unordered_map<Key, Held> live_;
  std::int64_t wanted_ = 0, most_ = 0;
};

// Spaces of keys: microbatches from 0 on, and below them what is kept from step to step.
enum Space : int {
  kWeights = -1,
  kStates = -10,
  kGradients = -20,
  kScratch = -21,
  kBuckets = -22,
  kWhole = -23,
  kNewGradient = -24
};

AllocatorSettings settings_of(const Framework& framework) {
  AllocatorSettings settings;
  settings.expandable_segments = framework.allocator == AllocatorModel::Expandable;
  return settings;
}

class RankReplay {
 public:
  RankReplay(const Lowering& lowering, int rank, const std::vector<UnitAllocations>& units)
      : lowering_(lowering),
        rank_(rank),
        units_(units),
        model_(lowering.scenario),
        tensors_(settings_of(lowering.scenario.framework)),
        sharded_(lowering.zero() >= 2 &&
                 mixed_precision_in_effect(lowering.scenario.framework, lowering.plan) == MixedPrecision::Sharded) {
    const std::size_t in_flight = at(lowering.plan.pipeline) * lowering.stages_of_rank(rank).size();
    microbatches_ = std::min(lowering.plan.schedule.microbatches, static_cast<int>(in_flight) + 2);
    find_gives();
  }

  AllocatorOverhead run() {
    take_weights();
    for (int step = 0; step < 2; ++step) {
      for (const Action& action : lowering_.plan.schedule.order[rank_])
        if (action.is_compute() && action.microbatch < microbatches_) run_pass(action);
      run_optimizer();
    }
    return tensors_.overhead();
  }

 private:
  // Each parameter once, in the order of its first use.
  template <class Visit>
  void each_parameter(Visit visit) const {
    std::set<int> seen;
    for (const int s : lowering_.stages_of_rank(rank_)) {
      const StageInfo& info = lowering_.stage(s);
      for (int u = info.first_unit; u < info.end_unit; ++u)
        for (const ParameterUse& use : lowering_.unit(info, u).parameters)
          if (seen.insert(use.tensor).second) visit(use);
    }
  }

  double shards(bool experts) const {
    return experts ? degrees_of_experts(lowering_.plan).shard_group() : lowering_.plan.shard_group();
  }

  void take_weights() {
    const LoweringCosts& costs = lowering_.costs;
    const ElementBytes experts = costs.expert_bytes();
    const bool late = model_.gradients_come_late(lowering_.plan);
    each_parameter([&](const ParameterUse& use) {
      const auto elements = static_cast<double>(use.elements);
      double bytes = use.experts ? experts.parameter : costs.parameter_bytes();
      // FSDP's whole parameters between forward and backward are the passes' own.
      if (sharded_ && lowering_.zero() == 2) bytes -= whole_element();
      tensors_.take(Tensors::key(kWeights, use.tensor), elements * bytes + static_cast<double>(use.frozen.base()));
      if (!late)
        tensors_.take(Tensors::key(kGradients, use.tensor), elements * (use.experts ? experts.gradient : costs.gradient_bytes()));
    });
    if (lowering_.plan.replicas() == 1) return;
    double all = 0;
    for (const MemoryPart& part : lowering_.graph.memory[at(rank_)].parts)
      if (part.use == MemoryUse::GradientBuckets) all += static_cast<double>(part.bytes.base());
    const double one = std::max(1.0, static_cast<double>(lowering_.scenario.framework.gradient_bucket.base()));
    int number = 0;
    for (double left = all; left > 0; left -= one) tensors_.take(Tensors::key(kBuckets, number++), std::min(left, one));
  }

  double whole_element() const { return static_cast<double>(size_of(compute_dtype(lowering_.scenario.precision)).base()); }

  // FSDP: the parameters of a block, whole, while it runs; the flat buffer of the gather is gone when they are copied out of it.
  void gather(const StageInfo& info, int first, int end) {
    if (!sharded_) return;
    double all = 0;
    for (int u = first; u < end; ++u)
      for (const ParameterUse& use : lowering_.unit(info, u).parameters)
        all += static_cast<double>(use.elements) * whole_element();
    tensors_.take(Tensors::key(kScratch, first), all, kGathers);
    for (int u = first; u < end; ++u)
      for (const ParameterUse& use : lowering_.unit(info, u).parameters)
        tensors_.take(Tensors::key(kWhole, use.tensor), static_cast<double>(use.elements) * whole_element());
    tensors_.give(Tensors::key(kScratch, first));
  }
  void drop(const StageInfo& info, int first, int end) {
    if (!sharded_) return;
    for (int u = first; u < end; ++u)
      for (const ParameterUse& use : lowering_.unit(info, u).parameters) tensors_.give(Tensors::key(kWhole, use.tensor));
  }

  // Units [first, end) of each block of a stage; a unit outside blocks is by itself.
  std::vector<std::pair<int, int>> blocks_of(const StageInfo& info) const {
    const std::vector<int> starts = recompute_groups(lowering_.workload(info), info.first_unit, info.end_unit, Recompute::None);
    std::vector<std::pair<int, int>> blocks;
    for (std::size_t k = 0; k < starts.size(); ++k)
      blocks.emplace_back(starts[k], k + 1 < starts.size() ? starts[k + 1] : info.end_unit);
    return blocks;
  }

  bool recomputes(const StageInfo& info, int u) const {
    const UnitCost& unit = lowering_.unit(info, u);
    return info.recompute == Recompute::Full && !unit.block.empty() && unit.recomputes;
  }

  void forward(int first, int end, int microbatch) {
    for (int u = first; u < end; ++u)
      for (const AllocationStep& step : units_[at(u)].forward) {
        const auto key = Tensors::key(microbatch, step.tensor);
        step.kind == AllocationStep::Kind::Take ? tensors_.take(key, static_cast<double>(step.bytes)) : tensors_.give(key);
      }
  }

  // What units keep, without tensors that a later unit keeps too.
  void forget(int first, int end, int microbatch) {
    for (int u = first; u < end; ++u)
      for (const int t : units_[at(u)].kept)
        if (!reads_later(t, end)) tensors_.give(Tensors::key(microbatch, t));
  }
  bool reads_later(int tensor, int end) {
    const auto found = given_in_.find(tensor);
    return found != given_in_.end() && found->second >= end;
  }

  void run_pass(const Action& action) {
    const StageInfo& info = lowering_.stage(action.stage);
    const int space = action.microbatch * lowering_.plan.schedule.stages + action.stage;
    if (action.kind == ActionKind::F) return run_forward(info, action.stage, space);
    if (action.kind == ActionKind::B || action.kind == ActionKind::I) run_backward(info, action.stage, space);
  }

  void find_gives() {
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (const AllocationStep& step : units_[u].backward)
        if (step.kind == AllocationStep::Kind::Give) given_in_[step.tensor] = static_cast<int>(u);
  }

  double received(const std::vector<int>& edges, bool gradients) const {
    double bytes = 0;
    for (const int e : edges) {
      const StageEdge& edge = lowering_.edges[e];
      if (edge.forward_link >= 0) bytes += static_cast<double>(gradients ? edge.gradient_bytes : edge.bytes);
    }
    return bytes;
  }

  void run_forward(const StageInfo& info, int stage, int space) {
    tensors_.take(Tensors::key(space, kReceived), received(lowering_.edges_in[stage], false));
    tensors_.take(Tensors::key(space, kOutputs), static_cast<double>(info.outputs.base()));
    for (const auto& [first, end] : blocks_of(info)) {
      gather(info, first, end);
      forward(first, end, space);
      if (recomputes(info, first)) forget(first, end, space);
      if (lowering_.zero() >= 3) drop(info, first, end);
    }
  }

  void run_backward(const StageInfo& info, int stage, int space) {
    tensors_.take(Tensors::key(space, kReceivedGradient), received(lowering_.edges_out[stage], true));
    const std::vector<std::pair<int, int>> blocks = blocks_of(info);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      gather(info, block->first, block->second);
      if (recomputes(info, block->first)) forward(block->first, block->second, space);
      for (int u = block->second; u > block->first; --u) backward(info, u - 1, space);
      reduce(info, block->first, block->second);
      drop(info, block->first, block->second);
    }
    tensors_.give_all(
        [&](Tensors::Key key) { return static_cast<int>(key >> 32) == space && static_cast<std::int32_t>(key) != kOutputs; });
  }

  void backward(const StageInfo& info, int u, int space) {
    const LoweringCosts& costs = lowering_.costs;
    const ElementBytes experts = costs.expert_bytes();
    for (const AllocationStep& step : units_[at(u)].backward) {
      const auto key = Tensors::key(space, step.tensor);
      switch (step.kind) {
        case AllocationStep::Kind::Take:
          tensors_.take(key, static_cast<double>(step.bytes));
          break;
        case AllocationStep::Kind::Give:
          tensors_.give(key);
          break;
        case AllocationStep::Kind::WeightGradient: {
          const auto made = Tensors::key(kNewGradient, step.tensor), sum = Tensors::key(kGradients, step.tensor);
          if (sharded_) {
            tensors_.take(made, static_cast<double>(step.bytes));  // until its block's are reduced
            break;
          }
          double elements = 0;
          bool of_experts = false;
          for (const ParameterUse& use : lowering_.unit(info, u).parameters)
            if (use.tensor == step.tensor) elements = static_cast<double>(use.elements), of_experts = use.experts;
          const double bytes = elements * (of_experts ? experts.gradient : costs.gradient_bytes());
          if (tensors_.holds(sum)) {
            tensors_.take(made, bytes);
            tensors_.give(made);
          } else {
            tensors_.take(sum, bytes);
          }
          break;
        }
      }
    }
  }

  // FSDP: a block's gradients are copied to the buffer of the reduce-scatter, which leaves this rank's shard.
  void reduce(const StageInfo& info, int first, int end) {
    if (!sharded_) return;
    const LoweringCosts& costs = lowering_.costs;
    double all = 0, shard = 0;
    for (int u = first; u < end; ++u)
      for (const ParameterUse& use : lowering_.unit(info, u).parameters) {
        if (use.elements == 0) continue;
        all += static_cast<double>(use.elements) * costs.reduced_bytes();
        shard += static_cast<double>(use.elements) * (use.experts ? costs.expert_bytes().gradient : costs.gradient_bytes());
      }
    if (all == 0) return;
    tensors_.take(Tensors::key(kScratch, first), all, kReductions);
    for (int u = first; u < end; ++u)
      for (const ParameterUse& use : lowering_.unit(info, u).parameters) tensors_.give(Tensors::key(kNewGradient, use.tensor));
    tensors_.take(Tensors::key(kGradients, first), shard, kReductions);
    tensors_.give(Tensors::key(kScratch, first));
  }

  void run_optimizer() {
    const LoweringCosts& costs = lowering_.costs;
    const Scenario& scenario = lowering_.scenario;
    tensors_.give_all([&](Tensors::Key key) { return static_cast<std::int32_t>(key) == kOutputs; });
    const int count = std::max(1, moments(scenario.optimizer.name));
    const ElementBytes experts = costs.expert_bytes();
    // States are made in the first step: of one parameter after another.
    each_parameter([&](const ParameterUse& use) {
      const double bytes = static_cast<double>(use.elements) * (use.experts ? experts.optimizer : costs.optimizer_bytes());
      for (int k = 0; k < count; ++k) tensors_.take(Tensors::key(kStates - k, use.tensor), bytes / count);
    });
    const OptimizerTemporary temporary = costs.optimizer_temporary();
    const bool divided = lowering_.zero() >= 1;
    each_parameter([&](const ParameterUse& use) {
      const double elements = static_cast<double>(use.elements) / (divided ? shards(use.experts) : 1);
      const auto key = Tensors::key(kScratch, use.tensor);
      tensors_.take(key, elements * (temporary.all + temporary.largest));
      if (temporary.all == 0) tensors_.give(key);
    });
    tensors_.give_all([&](Tensors::Key key) { return static_cast<int>(key >> 32) == kScratch; });
    if (model_.gradients_come_late(lowering_.plan))
      tensors_.give_all([&](Tensors::Key key) { return static_cast<int>(key >> 32) == kGradients; });
  }

  const Lowering& lowering_;
  const int rank_;
  const std::vector<UnitAllocations>& units_;
  const MemoryModel model_;
  Tensors tensors_;
  const bool sharded_;
  int microbatches_ = 0;
  std::unordered_map<int, int> given_in_;  // the unit whose backward gives a tensor back
};

}  // namespace

std::vector<AllocatorOverhead> replay_allocator(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  if (scenario.framework.allocator == AllocatorModel::Factor || scenario.memory_model != MemoryModelKind::Full) return {};
  Lowering lowering{scenario, plan, costs};
  make_stages(lowering);
  make_stage_edges(lowering);
  make_memory(lowering);
  const bool copies = MemoryModel(scenario).copies_weights(plan);
  std::map<int, std::vector<UnitAllocations>> of_site;
  std::vector<AllocatorOverhead> overheads;
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    const int site = lowering.stage(lowering.stages_of_rank(rank).front()).site;
    const auto [found, is_new] = of_site.try_emplace(site);
    if (is_new) found->second = costs.unit_allocations(site, copies);
    if (found->second.empty()) return {};
    overheads.push_back(RankReplay(lowering, rank, found->second).run());
  }
  return overheads;
}

void apply_replay(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs, TaskGraph& graph) {
  const std::vector<AllocatorOverhead> overheads = replay_allocator(scenario, plan, costs);
  // Ranks of further replicas, where a graph has them, are like those of the first.
  for (std::size_t r = 0; r < graph.memory.size() && !overheads.empty(); ++r) {
    const AllocatorOverhead& overhead = overheads[r % overheads.size()];
    graph.memory[r].allocator_factor = overhead.reserved;
    graph.memory[r].rounding_factor = overhead.allocated;
  }
}

}  // namespace panpipe
