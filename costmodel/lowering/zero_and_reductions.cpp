// Gradients and parameters on their way between replicas, and between ranks that hold the same
// parameter (a tied embedding; the two directions of a bidirectional schedule).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

namespace {

// Measured layers name no parameters: a layer's is told apart by its unit.
using ParameterKey = std::pair<bool, int>;
// Points inside passes that a plan has at most: far below what the estimate's tables hold.
constexpr std::size_t kMostPoints = 16384;
ParameterKey key_of(const ParameterUse& use, int unit) {
  return use.tensor >= 0 ? ParameterKey(true, use.tensor) : ParameterKey(false, unit);
}

Bytes bytes_of(double elements, double bytes_each) { return Bytes(static_cast<std::int64_t>(std::ceil(elements * bytes_each))); }

// Groups of devices that do the same at the same time, one for each tensor index.
using Groups = std::vector<std::vector<int>>;

Groups groups_of(const Lowering& lowering, int rank, Among among) {
  const Plan& plan = lowering.plan;
  const int shard = plan.shard_group(), members = among == Among::ShardGroup ? shard : plan.data / shard;
  Groups groups;
  for (int t = 0; t < plan.tensor; ++t)
    for (int g = 0; g < (among == Among::Data ? 1 : plan.data / members); ++g) {
      std::vector<int>& group = groups.emplace_back();
      for (int m = 0; m < (among == Among::Data ? plan.data : members); ++m) {
        const int d = among == Among::Data ? m : among == Among::ShardGroup ? g * shard + m : m * shard + g;
        group.push_back(plan.device(rank, d, t));
      }
    }
  return groups;
}

std::int32_t add_flow(Lowering& lowering, const CollectiveCost& cost, Among among = Among::Data) {
  const Ticks latency = to_ticks(cost.latency);
  lowering.graph.flows.push_back({cost, latency, to_ticks(cost.time) - latency, among});
  return static_cast<std::int32_t>(lowering.graph.flows.size()) - 1;
}

// All go on when the slowest has ended: their passes meet at every tensor-parallel collective.
CollectiveCost slowest_of(const Lowering& lowering, CollectiveKind kind, Bytes bytes, const Groups& groups) {
  CollectiveCost cost = lowering.costs.collective(kind, bytes, groups.front());
  for (std::size_t g = 1; g < groups.size(); ++g) {
    if (same_ways(lowering.scenario.cluster, groups.front(), groups[g])) continue;
    if (const CollectiveCost other = lowering.costs.collective(kind, bytes, groups[g]); other.time > cost.time) cost = other;
  }
  return cost;
}

std::int32_t add_flow(Lowering& lowering, CollectiveKind kind, Bytes bytes, const Groups& groups) {
  if (bytes <= Bytes(0) || groups.front().size() < 2) return -1;
  return add_flow(lowering, slowest_of(lowering, kind, bytes, groups));
}

// Collectives one behind another as one.
CollectiveCost in_a_row(CollectiveCost first, std::int64_t times, const CollectiveCost& second) {
  const auto all = static_cast<double>(times);
  first.bytes = first.bytes * times + second.bytes;
  first.wire_bytes = first.wire_bytes * times + second.wire_bytes;
  first.latency = first.latency * all + second.latency;
  first.time = first.time * all + second.time;
  return first;
}

// What the replicas of one rank exchange.
class Exchange {
 public:
  Exchange(Lowering& lowering, int rank) : lowering_(lowering) {
    const Plan& plan = lowering.plan;
    if (lowering.zero() > 0 && plan.shard_group() < plan.data) {
      inside_ = Among::ShardGroup;
      holders_ = groups_of(lowering, rank, Among::Holders);
    }
    groups_ = groups_of(lowering, rank, inside_);
  }

  std::int32_t gather(Bytes bytes) {
    return known({Traffic::Gather, bytes.base(), 0}, [&] { return plain(CollectiveKind::AllGather, bytes); });
  }

  // Parameters in the host's memory come to each device before they are gathered.
  std::int32_t gather_for_pass(Bytes bytes) {
    const bool known_before = known_.contains({Traffic::Gather, bytes.base(), 0});
    const std::int32_t flow = gather(bytes);
    if (!lowering_.scenario.offload.parameters || known_before || flow < 0) return flow;
    const Plan& plan = lowering_.plan;
    const Bandwidth rate = shared_host_copy_bandwidth(lowering_.scenario.cluster, plan.devices, groups_.front().front(), false);
    if (rate <= Bandwidth(0))
      throw fault_at(lowering_.scenario, "offload",
                     fmt::format("device '{}' has no copy_bandwidth, which parameters in the host's memory need",
                                 lowering_.scenario.cluster.type_of(groups_.front().front()).name),
                     "state it in the device file");
    const Duration copy = Bytes(bytes.base() / shards()) / rate;
    auto& spec = lowering_.graph.flows[static_cast<std::size_t>(flow)];
    spec.cost.latency += copy;
    spec.cost.time += copy;
    spec.latency += to_ticks(copy);
    return flow;
  }

  // Gradients: so many pieces of a size, and a rest, one behind another. In a shard group first, then each shard among its
  // holders.
  std::int32_t reduce(std::int64_t pieces, Bytes size, Bytes rest) {
    return known({Traffic::Reduce, pieces * size.base() + rest.base(), pieces}, [&]() -> std::int32_t {
      const CollectiveKind kind = lowering_.zero() >= 1 ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
      const std::int32_t flow = in_pieces(kind, pieces, size, rest, groups_, inside_);
      if (holders_.empty() || flow < 0) return flow;
      const auto shard = [&](Bytes bytes) { return Bytes((bytes.base() + shards() - 1) / shards()); };
      const std::int32_t next = in_pieces(CollectiveKind::AllReduce, pieces, shard(size), shard(rest), holders_, Among::Holders);
      lowering_.graph.flows[static_cast<std::size_t>(flow)].next = next;
      return flow;
    });
  }
  std::int32_t reduce(Bytes bytes) { return reduce(0, Bytes(0), bytes); }

 private:
  enum class Traffic { Gather, Reduce };
  using Key = std::tuple<Traffic, std::int64_t, std::int64_t>;

  // Blocks and layers are alike, and so is what they exchange.
  template <class Make>
  std::int32_t known(const Key& key, Make make) {
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = make();
  }

  std::int64_t shards() const { return std::ssize(groups_.front()); }

  std::int32_t plain(CollectiveKind kind, Bytes bytes) {
    if (bytes <= Bytes(0) || groups_.front().size() < 2) return -1;
    return add_flow(lowering_, slowest_of(lowering_, kind, bytes, groups_), inside_);
  }

  std::int32_t in_pieces(CollectiveKind kind, std::int64_t pieces, Bytes size, Bytes rest, const Groups& groups, Among among) {
    if ((pieces == 0 && rest <= Bytes(0)) || groups.front().size() < 2) return -1;
    CollectiveCost cost, last;
    cost.kind = kind;
    if (pieces > 0) cost = slowest_of(lowering_, kind, size, groups);
    if (rest > Bytes(0)) last = slowest_of(lowering_, kind, rest, groups);
    return add_flow(lowering_, pieces > 0 ? in_a_row(cost, pieces, last) : last, among);
  }

  Lowering& lowering_;
  Among inside_ = Among::Data;  // of gathers and reduce-scatters
  Groups groups_, holders_;     // none where every rank holds a shard of its own
  std::map<Key, std::int32_t> known_;
};

// A stage's gradients behind its backward.
std::int32_t add_awaited_reduction(const Lowering& lowering, Exchange& exchange, Bytes all) {
  const Bytes size = gradient_bucket(lowering.scenario, lowering.plan.data, lowering.costs.reduced_bytes());
  if (!buckets_when_awaited(lowering.scenario) || all <= size) return exchange.reduce(all);
  return exchange.reduce(all.base() / size.base(), size, Bytes(all.base() % size.base()));
}

// The position in the row after which each stage's gradients are whole.
void find_ends(const Lowering& lowering, int rank, RankReductions& reductions) {
  const auto& row = lowering.plan.schedule.order[static_cast<std::size_t>(rank)];
  reductions.stages_ending_at.resize(row.size());
  std::map<int, std::size_t> last, written;
  std::size_t last_pass = 0;
  for (std::size_t position = 0; position < row.size(); ++position) {
    const Action& action = row[position];
    if (action.is_compute()) last_pass = position;
    if (action.kind == ActionKind::ReduceGrad) written[action.stage] = position;
    if (action.is_compute() && ends_gradient(lowering, action)) {
      last[action.stage] = position;
      if (reductions.each_microbatch) reductions.stages_ending_at[position].push_back(action.stage);
    }
  }
  if (reductions.each_microbatch) return;
  const bool beside = reduces_beside(lowering.scenario, lowering.zero());
  for (const auto& [stage, position] : last) {
    const auto own = written.find(stage);
    const std::size_t at = own != written.end() ? own->second : beside ? position : last_pass;
    reductions.stages_ending_at[at].push_back(stage);
  }
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
      for (const ParameterUse& use : lowering.unit(info, u).parameters) {
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

HeldParameters held_parameters(const Lowering& lowering, const std::vector<int>& stages) {
  HeldParameters held;
  std::vector<ParameterKey> seen;
  for (const int s : stages) {
    const StageInfo& info = lowering.stage(s);
    for (int u = info.first_unit; u < info.end_unit; ++u) {
      for (const ParameterUse& use : lowering.unit(info, u).parameters) {
        held.add(use);
        seen.push_back(key_of(use, u));
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) == seen.end()) return held;
  // Something is held twice: count again, each parameter once.
  std::map<ParameterKey, HeldParameters> once;
  for (const int s : stages) {
    const StageInfo& info = lowering.stage(s);
    for (int u = info.first_unit; u < info.end_unit; ++u) {
      std::map<ParameterKey, HeldParameters> of_unit;
      for (const ParameterUse& use : lowering.unit(info, u).parameters) {
        const auto [known, is_new] = of_unit.try_emplace(key_of(use, u));
        if (is_new || use.tensor < 0) known->second.add(use);
      }
      once.insert(of_unit.begin(), of_unit.end());
    }
  }
  held = {};
  for (const auto& entry : once) held.add(entry.second);
  return held;
}

Bytes weight_size(const Lowering& lowering, const HeldParameters& held) {
  const auto each = size_of(compute_dtype(lowering.scenario.precision)).base();
  return Bytes(held.elements * each) + held.given + held.frozen - held.narrower;
}

bool ends_gradient(const Lowering& lowering, const Action& action) {
  if (action.kind == ActionKind::B || action.kind == ActionKind::W) return true;
  return action.kind == ActionKind::I && !lowering.stage(action.stage).weight_apart;
}

Bytes gradient_size(const Lowering& lowering, const HeldParameters& held) {
  return bytes_of(static_cast<double>(held.elements), lowering.costs.reduced_bytes()) + held.given;
}

// A parameter's gradient is whole when the backward has done the first unit that uses it. ZeRO 3 reduces by block instead.
void make_bucket_trains(Lowering& lowering) {
  if (lowering.plan.data == 1 || lowering.zero() >= 3 || !reduces_beside(lowering.scenario, lowering.zero())) return;
  std::vector<bool> written(lowering.stages.size(), false);  // the schedule says itself where it is reduced
  for (const auto& row : lowering.plan.schedule.order)
    for (const Action& action : row)
      if (action.kind == ActionKind::ReduceGrad && action.stage >= 0) written[static_cast<std::size_t>(action.stage)] = true;
  const std::int64_t size = gradient_bucket(lowering.scenario, lowering.plan.data, lowering.costs.reduced_bytes()).base();
  const std::size_t most = std::max<std::size_t>(1, kMostPoints / (lowering.stages.size() * lowering.stages[0].programs.size()));
  for (std::size_t s = 0; s < lowering.stages.size(); ++s) {
    StageInfo& info = lowering.stages[s];
    const std::int64_t all = gradient_size(lowering, held_parameters(lowering, {static_cast<int>(s)})).base();
    if (written[s] || all <= size) continue;
    HeldParameters made;
    std::vector<ParameterKey> seen;  // by units before, which use them too
    std::vector<HeldParameters> of_unit(static_cast<std::size_t>(info.end_unit - info.first_unit));
    for (int u = info.first_unit; u < info.end_unit; ++u)
      for (const ParameterUse& use : lowering.unit(info, u).parameters) {
        const ParameterKey key = key_of(use, u);
        if (key.first && std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
        seen.push_back(key);
        of_unit[static_cast<std::size_t>(u - info.first_unit)].add(use);
      }
    std::int64_t started = 0;  // buckets
    for (int u = info.end_unit - 1; u >= info.first_unit; --u) {
      made.add(of_unit[static_cast<std::size_t>(u - info.first_unit)]);
      const bool last = u == info.first_unit;
      const std::int64_t full = last ? all / size : gradient_size(lowering, made).base() / size;
      const BucketTrain train{u, static_cast<int>(full - started), Bytes(last ? all % size : 0)};
      started = full;
      if (train.whole == 0 && train.rest == Bytes(0)) continue;
      info.trains.push_back(train);
    }
    const std::size_t several = (info.trains.size() + most - 1) / most;
    for (std::size_t k = 0; several > 1 && k < info.trains.size(); ++k) {  // merged with those behind
      BucketTrain merged = info.trains[k];
      for (std::size_t i = 1; i < several && k + 1 < info.trains.size(); ++i) {
        const BucketTrain next = info.trains[k + 1];
        info.trains.erase(info.trains.begin() + static_cast<std::ptrdiff_t>(k));
        merged = {next.unit, merged.whole + next.whole, next.rest};
      }
      info.trains[k] = merged;
    }
  }
}

RankReductions rank_reductions(Lowering& lowering, int rank) {
  const int zero = lowering.zero();
  RankReductions reductions;
  reductions.each_microbatch = zero >= 2 && lowering.plan.data > 1;
  reductions.gather_flow.assign(lowering.stages.size(), -1);
  reductions.reduce_flow.assign(lowering.stages.size(), -1);
  reductions.update_flow.assign(lowering.stages.size(), -1);
  reductions.train_flows.resize(lowering.stages.size());
  reductions.group_gathers.resize(lowering.stages.size());
  reductions.group_reductions.resize(lowering.stages.size());
  find_ends(lowering, rank, reductions);
  if (lowering.plan.data == 1) return reductions;
  Exchange exchange(lowering, rank);
  const Bytes bucket = gradient_bucket(lowering.scenario, lowering.plan.data, lowering.costs.reduced_bytes());
  for (const int stage : lowering.stages_of_rank(rank)) {
    StageInfo& info = lowering.stage(stage);
    const HeldParameters held = held_parameters(lowering, {stage});
    const auto s = static_cast<std::size_t>(stage);
    reductions.reduce_flow[s] = add_awaited_reduction(lowering, exchange, gradient_size(lowering, held));
    for (const BucketTrain& train : info.trains)
      reductions.train_flows[s].push_back(exchange.reduce(train.whole, bucket, train.rest));
    if (zero == 1 || zero == 2) reductions.update_flow[s] = exchange.gather(weight_size(lowering, held));
    if (zero == 3) {
      info.gathered = gathered_blocks(lowering, info);
      reductions.gather_flow[s] = exchange.gather_for_pass(weight_size(lowering, held));
    }
    for (int g = 0; g < info.groups(); ++g) {
      const HeldParameters group = group_parameters(lowering, info, g);
      reductions.group_gathers[s].push_back(zero == 3 ? exchange.gather_for_pass(weight_size(lowering, group))
                                                      : exchange.gather(weight_size(lowering, group)));
      reductions.group_reductions[s].push_back(zero < 3 ? -1 : exchange.reduce(gradient_size(lowering, group)));
    }
    add_part_programs(lowering, stage, reductions);
  }
  return reductions;
}

HeldParameters summed_parameters(const Lowering& lowering, int rank) {
  if (lowering.plan.data > 1) return held_parameters(lowering, lowering.stages_of_rank(rank));
  HeldParameters summed;
  for (const auto& [key, entry] : parameter_holders(lowering)) {
    if (entry.ranks.size() < 2 || !std::binary_search(entry.ranks.begin(), entry.ranks.end(), rank)) continue;
    summed.add(entry.held);
  }
  return summed;
}

void make_shared_flows(Lowering& lowering) {
  if (lowering.plan.pipeline == 1) return;
  const bool copies = lowering.plan.schedule.chains.size() > 1;
  std::map<std::vector<std::int32_t>, Bytes> bytes_of_set;
  for (const auto& [key, entry] : parameter_holders(lowering)) {
    if (entry.ranks.size() < 2) continue;
    if (!copies && lowering.scenario.tied_embedding == TiedEmbedding::OneRank)
      throw fault_at(
          lowering.scenario, "tied_embedding",
          "tied_embedding: one-rank needs the embedding and the head on one rank, but the stages that use it are on ranks " +
              std::to_string(entry.ranks.front()) + " and " + std::to_string(entry.ranks.back()),
          "use tied_embedding: copy, or a schedule whose first and last stage share a rank");
    bytes_of_set[entry.ranks] += gradient_size(lowering, entry.held);
  }
  for (const auto& [ranks, bytes] : bytes_of_set) {
    Groups groups(static_cast<std::size_t>(lowering.plan.tensor));
    for (int t = 0; t < lowering.plan.tensor; ++t)
      for (const std::int32_t rank : ranks)
        groups[static_cast<std::size_t>(t)].push_back(lowering.plan.device(rank, lowering.replica, t));
    const Bytes share = lowering.zero() >= 2 ? Bytes(bytes.base() / lowering.plan.shard_group()) : bytes;
    const std::int32_t flow = add_flow(lowering, CollectiveKind::AllReduce, share, groups);
    if (flow >= 0) lowering.graph.cross_rank_flows.push_back({flow, ranks});
  }
}

}  // namespace panpipe
