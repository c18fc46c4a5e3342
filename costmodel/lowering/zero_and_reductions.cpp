// Exchanges of gradients and parameters between replicas, and between ranks with the same parameter (a tied embedding; the two
// directions of a bidirectional schedule).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/streamed_weights.hpp"

namespace panpipe {

namespace {

// Measured layers name no parameters, so a layer's are identified by its unit.
using ParameterKey = std::pair<bool, int>;
// Points inside passes that a plan has at most: far below what the estimate's tables hold.
constexpr std::size_t kMostPoints = 16384;
ParameterKey key_of(const ParameterUse& use, int unit) {
  return use.tensor >= 0 ? ParameterKey(true, use.tensor) : ParameterKey(false, unit);
}

// All continue when the slowest has ended, because their passes synchronise at every tensor-parallel collective.
CollectiveCost slowest_of(const Lowering& lowering, CollectiveKind kind, Bytes bytes, const DeviceGroups& groups) {
  CollectiveCost cost = lowering.costs.collective(kind, bytes, groups.front());
  for (std::size_t g = 1; g < groups.size(); ++g) {
    if (same_ways(lowering.scenario.cluster, groups.front(), groups[g])) continue;
    if (const CollectiveCost other = lowering.costs.collective(kind, bytes, groups[g]); other.time > cost.time) cost = other;
  }
  return cost;
}

std::int32_t add_flow(Lowering& lowering, CollectiveKind kind, Bytes bytes, const DeviceGroups& groups) {
  if (bytes <= Bytes(0) || groups.front().size() < 2) return -1;
  return lowering.add_flow(slowest_of(lowering, kind, bytes, groups));
}

// Consecutive collectives merged into one.
CollectiveCost in_a_row(CollectiveCost first, std::int64_t times, const CollectiveCost& second) {
  const auto all = static_cast<double>(times);
  first.bytes = first.bytes * times + second.bytes;
  first.wire_bytes = first.wire_bytes * times + second.wire_bytes;
  first.latency = first.latency * all + second.latency;
  first.time = first.time * all + second.time;
  return first;
}

// The exchanges between the replicas of one rank, as flows of which each starts when the one before has ended.
class Exchange {
 public:
  Exchange(Lowering& lowering, int rank) : lowering_(lowering), traffic_(lowering.scenario.framework, lowering.plan) {
    const auto add = [&](Among among) { groups_[among] = groups_of(lowering, rank, among); };
    add(traffic_.inside());
    if (traffic_.in_shard_groups()) add(Among::Holders);
    if (traffic_.experts_apart()) add(Among::ExpertData);
  }

  std::int32_t gather(const HeldParameters& held) {
    const Bytes others = weight_size(lowering_, held.others), experts = weight_size(lowering_, held.experts);
    return known({Traffic::Gather, others.base(), 0, experts.base(), 0},
                 [&] { return flows_of(traffic_.gather(others, experts)); });
  }

  // Parameters in the host's memory come to each device before they are gathered.
  std::int32_t gather_for_pass(const HeldParameters& held) {
    const std::size_t before = known_.size();
    const std::int32_t flow = gather(held);
    if (!lowering_.scenario.offload.parameters || known_.size() == before || flow < 0) return flow;
    const DeviceGroups& inside = groups_.at(traffic_.inside());
    const int device = inside.front().front();
    const Bandwidth rate = copy_rate(lowering_, device, false, "parameters in the host's memory need");
    const auto share = [&](const ParameterSums& sums, Among among) {
      const auto groups = groups_.find(among);
      const Bytes bytes = weight_size(lowering_, sums);
      return groups == groups_.end() ? bytes : Bytes(bytes.base() / std::ssize(groups->second.front()));
    };
    const Duration copy = (share(held.others, traffic_.inside()) + share(held.experts, Among::ExpertData)) / rate;
    auto& spec = lowering_.graph.flows[flow];
    spec.cost.latency += copy;
    spec.cost.time += copy;
    spec.latency += to_ticks(copy);
    return flow;
  }

  std::int32_t reduce(const Pieces& others, const Pieces& experts, Bytes size) {
    const auto bytes = [&](const Pieces& pieces) { return pieces.whole * size.base() + pieces.rest.base(); };
    return known({Traffic::Reduce, bytes(others), others.whole, bytes(experts), experts.whole},
                 [&] { return flows_of(traffic_.reduction(others, experts, size)); });
  }
  std::int32_t reduce(const HeldParameters& held) {
    return reduce({0, gradient_size(lowering_, held.others)}, {0, gradient_size(lowering_, held.experts)}, Bytes(0));
  }

 private:
  enum class Traffic { Gather, Reduce };
  using Key = std::tuple<Traffic, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

  // Blocks and layers are equal, and so are their exchanges.
  template <class Make>
  std::int32_t known(const Key& key, Make make) {
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = make();
  }

  std::int32_t flows_of(std::span<const Exchanged> all) {
    std::int32_t first = -1, last = -1;
    for (const Exchanged& one : all) {
      if (one.pieces.empty() || groups_.at(one.among).front().size() < 2) continue;
      const std::int32_t flow = lowering_.add_flow(cost_of(one), one.among);
      (last < 0 ? first : lowering_.graph.flows[last].next) = flow;
      last = flow;
    }
    return first;
  }
  CollectiveCost cost_of(const Exchanged& one) {
    const auto cost = [&](Bytes size) { return slowest_of(lowering_, one.kind, size, groups_.at(one.among)); };
    const CollectiveCost last = one.pieces.rest > Bytes(0) ? cost(one.pieces.rest) : CollectiveCost{};
    return one.pieces.whole > 0 ? in_a_row(cost(one.size), one.pieces.whole, last) : last;
  }

  Lowering& lowering_;
  const ReplicaTraffic traffic_;
  std::map<Among, DeviceGroups> groups_;  // those among which something is exchanged
  std::map<Key, std::int32_t> known_;
};

// A stage's gradients behind its backward.
std::int32_t add_awaited_reduction(const Lowering& lowering, Exchange& exchange, const HeldParameters& held) {
  const Bytes size = gradient_bucket(lowering.scenario, lowering.plan.replicas(), lowering.costs.reduced_bytes());
  if (!lowering.scenario.framework.awaited_buckets || lowering.whole_reductions || gradient_size(lowering, held) <= size)
    return exchange.reduce(held);
  return exchange.reduce(cut(gradient_size(lowering, held.others), size), cut(gradient_size(lowering, held.experts), size), size);
}

// The position in the row after which each stage's gradients are whole.
void find_ends(const Lowering& lowering, int rank, RankReductions& reductions) {
  const auto& row = lowering.plan.schedule.order[rank];
  reductions.stages_ending_at.resize(row.size());
  std::map<int, std::size_t> last, written;
  std::size_t last_pass = 0;
  const bool overlapped = overlaps_reductions(lowering.scenario, lowering.zero());
  const auto end_step = [&] {
    for (const auto& [stage, position] : last) {
      const auto own = written.find(stage);
      const std::size_t at = own != written.end() ? own->second : overlapped ? position : last_pass;
      reductions.stages_ending_at[at].push_back(stage);
    }
    last.clear();
    written.clear();
  };
  for (std::size_t position = 0; position < row.size(); ++position) {
    const Action& action = row[position];
    if (action.kind == ActionKind::Opt) end_step();
    if (action.is_compute() || action.is_vocabulary()) last_pass = position;
    if (action.kind == ActionKind::T || action.kind == ActionKind::G) last[action.stage] = position;  // of the rank's share
    if (action.kind == ActionKind::ReduceGrad) written[action.stage] = position;
    if (!action.is_compute() || !ends_gradient(lowering, action)) continue;
    if (reductions.each_microbatch)
      reductions.stages_ending_at[position].push_back(action.stage);
    else
      last[action.stage] = position;
  }
  end_step();
}

// Which ranks hold each parameter (ascending), and how much gradient it has.
struct Holders {
  std::vector<std::int32_t> ranks;
  HeldParameters held;
};

std::map<ParameterKey, Holders> parameter_holders(const Lowering& lowering) {
  std::map<ParameterKey, Holders> holders;
  for (const StageInfo& info : lowering.stages)
    for (int u = info.first_unit; u < info.end_unit; ++u)
      for (const ParameterUse& use : info.unit(u).parameters) {
        Holders& entry = holders[key_of(use, u)];
        entry.ranks.push_back(info.rank);
        entry.held = {};
        entry.held.add(use);
      }
  for (auto& [key, entry] : holders) {
    std::sort(entry.ranks.begin(), entry.ranks.end());
    entry.ranks.erase(std::unique(entry.ranks.begin(), entry.ranks.end()), entry.ranks.end());
  }
  return holders;
}

}  // namespace

DeviceGroups groups_of(const Lowering& lowering, int rank, Among among) {
  const Plan& plan = lowering.plan;
  const GroupShape shape = plan.group(among);
  DeviceGroups groups;
  for (int t = 0; t < plan.tensor; ++t)
    for (int replica = 0; replica < plan.replicas(); ++replica) {
      int position = replica * plan.tensor + t;
      if (shape.first_of(position) != position) continue;
      std::vector<int>& group = groups.emplace_back();
      for (int member = 0; member < shape.members; ++member, position += shape.stride)
        group.push_back(plan.device(rank, position / plan.tensor, position % plan.tensor));
    }
  return groups;
}

std::int32_t Lowering::add_flow(const CollectiveCost& cost, Among among) {
  const Ticks latency = to_ticks(cost.latency);
  graph.flows.push_back({cost, latency, to_ticks(cost.time) - latency, among});
  return static_cast<std::int32_t>(graph.flows.size()) - 1;
}

std::vector<std::int32_t> Lowering::all_ranks() const {
  std::vector<std::int32_t> ranks(at(plan.pipeline));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::int32_t Lowering::add_pipeline_flow(CollectiveKind kind, Bytes bytes) {
  std::vector<int> devices;
  for (const std::int32_t rank : all_ranks()) devices.push_back(device(rank));
  return add_flow(costs.collective(kind, bytes, devices));
}

HeldParameters held_parameters(const Lowering& lowering, const std::vector<int>& stages) {
  HeldParameters held;
  each_first_use(lowering, stages, [&](const ParameterUse& use, int) { held.add(use); });
  for (const int s : stages)
    if (const int rank = lowering.stage(s).rank; lowering.plan.schedule.vocabulary_barriers > 0 && s == rank)
      held.add(vocabulary_share(lowering, rank));
  return held;
}

Bytes weight_size(const Lowering& lowering, const ParameterSums& sums) { return weight_bytes(sums, lowering.scenario.precision); }

bool ends_gradient(const Lowering& lowering, const Action& action) {
  if (action.kind == ActionKind::B || action.kind == ActionKind::W) return true;
  return action.kind == ActionKind::I && !lowering.stage(action.stage).weight_apart;
}

Bytes gradient_size(const Lowering& lowering, const ParameterSums& sums) {
  return gradient_bytes(sums, lowering.costs.reduced_bytes());
}

// A parameter's gradient is whole when the backward has done the first unit that uses it. ZeRO 3 reduces by block instead.
void make_bucket_trains(Lowering& lowering) {
  if (!lowering.plan.exchanges() || lowering.whole_reductions || lowering.zero() >= 3 ||
      !overlaps_reductions(lowering.scenario, lowering.zero()))
    return;
  std::vector<bool> written(lowering.stages.size(), false);  // stages whose reductions are actions of the schedule
  for (const auto& row : lowering.plan.schedule.order)
    for (const Action& action : row)
      if (action.kind == ActionKind::ReduceGrad && action.stage >= 0) written[action.stage] = true;
  const std::int64_t size = gradient_bucket(lowering.scenario, lowering.plan.replicas(), lowering.costs.reduced_bytes()).base();
  // For the parameters that all replicas hold, and for experts.
  const auto sizes_of = [&](const HeldParameters& held) {
    return std::array{gradient_size(lowering, held.others).base(), gradient_size(lowering, held.experts).base()};
  };
  const std::size_t most = std::max<std::size_t>(1, kMostPoints / (lowering.stages.size() * lowering.stages[0].passes.size()));
  for (std::size_t s = 0; s < lowering.stages.size(); ++s) {
    StageInfo& info = lowering.stages[s];
    const HeldParameters held = held_parameters(lowering, {static_cast<int>(s)});
    const std::array<std::int64_t, 2> all = sizes_of(held);
    if (written[s] || all[0] + all[1] <= size) continue;
    HeldParameters made;
    std::vector<HeldParameters> of_unit(info.end_unit - info.first_unit);  // that no unit before uses
    each_first_use(lowering, {static_cast<int>(s)},
                   [&](const ParameterUse& use, int u) { of_unit[u - info.first_unit].add(use); });
    std::array<std::int64_t, 2> started{};  // buckets
    for (int u = info.end_unit - 1; u >= info.first_unit; --u) {
      made.add(of_unit[u - info.first_unit]);
      const bool last = u == info.first_unit;
      const std::array<std::int64_t, 2> ready = last ? all : sizes_of(made);
      const auto pieces = [&](std::size_t k) { return Pieces{ready[k] / size - started[k], Bytes(last ? all[k] % size : 0)}; };
      const BucketTrain train{u, pieces(0), pieces(1)};
      started = {ready[0] / size, ready[1] / size};
      if (!train.empty()) info.trains.push_back(train);
    }
    const std::size_t several = (info.trains.size() + most - 1) / most;
    for (std::size_t k = 0; several > 1 && k < info.trains.size(); ++k) {  // merged with those behind
      BucketTrain merged = info.trains[k];
      for (std::size_t i = 1; i < several && k + 1 < info.trains.size(); ++i) {
        const auto [unit, others, experts] = info.trains[k + 1];
        info.trains.erase(info.trains.begin() + static_cast<std::ptrdiff_t>(k));
        merged = {unit, {merged.others.whole + others.whole, others.rest}, {merged.experts.whole + experts.whole, experts.rest}};
      }
      info.trains[k] = merged;
    }
  }
}

RankReductions rank_reductions(Lowering& lowering, int rank) {
  const int zero = lowering.zero();
  RankReductions reductions;
  reductions.each_microbatch =
      zero >= 2 && lowering.plan.exchanges() && lowering.scenario.framework.gradient_storage != GradientStorage::Unsharded;
  reductions.of_stage.resize(lowering.stages.size());
  find_ends(lowering, rank, reductions);
  if (!lowering.plan.exchanges()) return reductions;
  Exchange exchange(lowering, rank);
  const Bytes bucket = gradient_bucket(lowering.scenario, lowering.plan.replicas(), lowering.costs.reduced_bytes());
  for (const int stage : lowering.stages_of_rank(rank)) {
    StageInfo& info = lowering.stage(stage);
    const HeldParameters held = held_parameters(lowering, {stage});
    StageFlows& flows = reductions.of_stage[stage];
    flows.reduce = add_awaited_reduction(lowering, exchange, held);
    for (const BucketTrain& train : info.trains) flows.trains.push_back(exchange.reduce(train.others, train.experts, bucket));
    if (zero == 1 || zero == 2) flows.update = exchange.gather(held.trained());
    if (zero == 3) {
      info.gathered = gathered_blocks(lowering, info);
      flows.gather = exchange.gather_for_pass(held);
    }
    for (int g = 0; g < info.groups(); ++g) {
      HeldParameters group;
      FirstUses is_first;
      for (const GatheredPart& part : info.parts)
        if (part.group == g)
          each_first_use(info, part.first_unit, part.end_unit, is_first, [&](const ParameterUse& use, int) { group.add(use); });
      flows.group_gathers.push_back(zero == 3 ? exchange.gather_for_pass(group) : exchange.gather(group.trained()));
      flows.group_reductions.push_back(zero < 3 ? -1 : exchange.reduce(group));
    }
    add_part_programs(lowering, stage, reductions);
  }
  return reductions;
}

HeldParameters summed_parameters(const Lowering& lowering, int rank) {
  if (lowering.plan.replicas() > 1) return held_parameters(lowering, lowering.stages_of_rank(rank));
  HeldParameters summed;
  for (const auto& [key, entry] : parameter_holders(lowering)) {
    if (entry.ranks.size() < 2 || !std::binary_search(entry.ranks.begin(), entry.ranks.end(), rank)) continue;
    summed.add(entry.held);
  }
  return summed;
}

void make_shared_flows(Lowering& lowering) {
  if (lowering.plan.pipeline == 1 || streams_weights(lowering.scenario, lowering.plan)) return;
  const bool copies = lowering.plan.schedule.chains.size() > 1;
  std::map<std::vector<std::int32_t>, HeldParameters> held_by_set;
  for (const auto& [key, entry] : parameter_holders(lowering)) {
    if (entry.ranks.size() < 2) continue;
    if (!copies && lowering.scenario.tied_embedding == TiedEmbedding::OneRank)
      throw fault_at(
          lowering.scenario, "tied_embedding",
          "tied_embedding: one-rank needs the embedding and the head on one rank, but the stages that use it are on ranks " +
              std::to_string(entry.ranks.front()) + " and " + std::to_string(entry.ranks.back()),
          "use tied_embedding: copy, or a schedule whose first and last stage share a rank");
    held_by_set[entry.ranks].add(entry.held);
  }
  const bool divided = lowering.zero() >= 2;
  const int shards = divided ? lowering.plan.shard_group() : 1,
            of_experts = divided ? degrees_of_experts(lowering.plan).shard_group() : 1;
  for (const auto& [ranks, held] : held_by_set) {
    DeviceGroups groups(static_cast<std::size_t>(lowering.plan.tensor));
    for (int t = 0; t < lowering.plan.tensor; ++t)
      for (const std::int32_t rank : ranks) groups[t].push_back(lowering.plan.device(rank, lowering.replica, t));
    const Bytes share(gradient_size(lowering, held.others).base() / shards +
                      gradient_size(lowering, held.experts).base() / of_experts);
    const std::int32_t flow = add_flow(lowering, CollectiveKind::AllReduce, share, groups);
    if (flow >= 0) lowering.graph.cross_rank_flows.push_back({flow, ranks});
  }
}

}  // namespace panpipe
