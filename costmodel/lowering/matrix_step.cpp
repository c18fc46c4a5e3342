// The step of matrices that an optimizer takes whole: how the replicas divide it, and what they exchange for it.
#include <algorithm>
#include <queue>
#include <tuple>

#include "costmodel/cost/matrix_optimizer.hpp"
#include "costmodel/lowering/lowering.hpp"

namespace panpipe {
namespace {

// Megatron-LM gathers a momentum over tensor-parallel ranks in fp32, and sums Gram matrices in bf16 (emerging_optimizers,
// newton_schulz_tp). Replicas exchange it in bf16 (Moonlight's distributed Muon, arXiv 2502.16982, section 2.3; microsoft/dion).
constexpr std::int64_t kTensorBytes = 4, kGramBytes = 2, kReplicaBytes = 2;

// From a call to the launch of its kernel, without autograd and modules: about 10 us for a product by cuBLASLt that chooses its
// algorithm (rapidsai/raft pull request 1736).
constexpr Duration kCall = micros(10);

// What one replica has to do, of matrices of one kind: those of experts are divided over other ranks than the rest.
struct MatrixLoad {
  double seconds = 0;
  Flops work{0};
  std::int64_t elements = 0;  // on its tensor-parallel rank
  std::int64_t launches = 0;
  std::vector<std::pair<const MatrixUse*, std::int64_t>> matrices;  // and how many of each in a row

  void add(const MatrixUse& use, std::int64_t times) {
    seconds += use.step.base() * static_cast<double>(times);
    work += use.work * static_cast<double>(times);
    elements += use.shard * times;
    launches += use.launches * times;
    if (matrices.empty() || !(*matrices.back().first == use)) matrices.emplace_back(&use, 0);
    matrices.back().second += times;
  }
};

// The longest first, each to whom has least to do, as Megatron-LM (layer_wise_optimizer.py) and torchtitan's FlexShard divide
// them.
std::vector<MatrixLoad> divide_matrices(std::vector<const MatrixUse*> uses, int ranks) {
  std::vector<MatrixLoad> loads(static_cast<std::size_t>(ranks));
  if (ranks == 1) {
    for (const MatrixUse* use : uses) loads.front().add(*use, use->count);
    return loads;
  }
  std::stable_sort(uses.begin(), uses.end(), [](const MatrixUse* a, const MatrixUse* b) {
    return std::pair(a->step.base(), a->elements) > std::pair(b->step.base(), b->elements);
  });
  using Entry = std::tuple<double, std::int64_t, std::size_t>;  // seconds, elements, rank
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> least;
  for (std::size_t r = 0; r < loads.size(); ++r) least.emplace(0, 0, r);
  for (const MatrixUse* use : uses)
    for (std::int64_t i = 0; i < use->count; ++i) {
      const std::size_t r = std::get<2>(least.top());
      least.pop();
      loads[r].add(*use, 1);
      least.emplace(loads[r].seconds, loads[r].elements, r);
    }
  return loads;
}

class MatrixExchange {
 public:
  MatrixExchange(const Lowering& lowering, int rank, bool experts)
      : lowering_(lowering),
        mode_(lowering.scenario.optimizer.tensor_mode),
        iterations_(lowering.scenario.optimizer.newton_schulz_steps),
        tensor_(groups_of(lowering, rank, Among::Tensor).front()),
        replicas_(groups_of(lowering, rank,
                            experts               ? Among::ExpertData
                            : lowering.zero() > 0 ? Among::ShardGroup
                                                  : Among::Data)
                      .front()) {}

  // Of the shards that tensor-parallel ranks hold.
  Duration over_tensor_ranks(const MatrixLoad& load) const {
    if (tensor_.size() < 2 || mode_ == MatrixTensorMode::Blockwise) return Duration(0);
    Duration time(0);
    std::int64_t turned = 0;
    for (const auto& [use, times] : load.matrices) {
      if (use->shard == use->elements) continue;
      const auto count = static_cast<double>(times);
      if (mode_ == MatrixTensorMode::Duplicated)
        time += one(CollectiveKind::AllGather, use->elements * kTensorBytes, tensor_) * count;
      else if (mode_ == MatrixTensorMode::Distributed)
        time += one(CollectiveKind::AllReduce, use->gram * kGramBytes, tensor_) * (count * iterations_);
      else
        turned += use->shard * times * kTensorBytes;
    }
    if (turned > 0) time += one(CollectiveKind::AllToAll, turned, tensor_) * 2;
    return time;
  }

  // Of the shards that ZeRO 2 and 3 give the replicas. `all`: elements that one holds with the others.
  Duration over_replicas(const MatrixLoad& load, MatrixSharding sharding, std::int64_t all) const {
    const auto ranks = static_cast<std::int64_t>(replicas_.size());
    if (ranks < 2 || lowering_.zero() < 2) return Duration(0);
    if (sharding == MatrixSharding::Layers) return one(CollectiveKind::AllToAll, all / ranks * kReplicaBytes, replicas_) * 2;
    Duration time(0);
    for (const auto& [use, times] : load.matrices)
      time += one(CollectiveKind::AllGather, use->shard * kReplicaBytes, replicas_) * static_cast<double>(times);
    return time;
  }

 private:
  Duration one(CollectiveKind kind, std::int64_t bytes, const std::vector<int>& devices) const {
    return lowering_.costs.collective(kind, Bytes(bytes), devices).time;
  }

  const Lowering& lowering_;
  MatrixTensorMode mode_;
  int iterations_;
  std::vector<int> tensor_, replicas_;
};

}  // namespace

MatrixStep matrix_step(const Lowering& lowering, int rank) {
  MatrixStep step;
  std::vector<const MatrixUse*> others, experts;
  const std::vector<int>& stages = lowering.stages_of_rank(rank);
  each_first_use(lowering, stages, [&](const ParameterUse& use, int) {
    if (use.matrices.count > 0) (use.experts ? experts : others).push_back(&use.matrices);
  });
  if (others.empty() && experts.empty()) return step;
  const MatrixSharding sharding =
      lowering.plan.exchanges() ? matrix_sharding(lowering.scenario, lowering.zero()) : MatrixSharding::Replicated;
  const int site = lowering.stage(stages.front()).site;
  std::int64_t launches = 0;
  for (const bool of_experts : {false, true}) {
    const std::vector<const MatrixUse*>& uses = of_experts ? experts : others;
    if (uses.empty()) continue;
    const Degrees degrees = of_experts ? degrees_of_experts(lowering.plan) : Degrees(lowering.plan);
    const int ranks = sharding == MatrixSharding::Layers ? degrees.shard_group() : 1;
    const std::vector<MatrixLoad> loads = divide_matrices(uses, ranks);
    const auto longest = std::max_element(loads.begin(), loads.end(),
                                          [](const MatrixLoad& a, const MatrixLoad& b) { return a.seconds < b.seconds; });
    std::int64_t all = 0, most = 0;
    for (const MatrixLoad& load : loads) all += load.elements, most = std::max(most, load.elements);
    (of_experts ? step.expert_elements : step.elements) = most - all / ranks;
    for (const MatrixUse* use : uses) step.temporary = std::max(step.temporary, use->temporary);
    launches += longest->launches;
    step.cost.compute += Duration(longest->seconds);
    step.cost.work += longest->work;
    const MatrixExchange exchange(lowering, rank, of_experts);
    step.cost.communication += exchange.over_tensor_ranks(*longest) + exchange.over_replicas(*longest, sharding, all);
  }
  const Duration calls = kCall * static_cast<double>(launches);
  const Duration bound = lowering.costs.host_bound(step.cost.compute, HostWork(0, calls), site);
  step.cost.launch = bound - step.cost.compute;
  step.cost.host = calls;
  step.cost.total = bound + step.cost.communication;
  return step;
}

}  // namespace panpipe
