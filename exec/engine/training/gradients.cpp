#include "exec/engine/training/gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/unflatten_dense_tensors.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "exec/engine/training/sharded_parameters.hpp"
#include "exec/engine/training/weight_slots.hpp"

namespace panpipe::exec {

std::map<int, std::vector<int>> holders_of(const OperatorGraph& graph, const StageLayout& layout, const Plan& plan) {
  std::map<int, std::vector<int>> holders;
  for (int position = 0; position < plan.pipeline; ++position)
    for (const int stage : stages_of(plan, position))
      for (const int tensor : layout.stages[stage].parameters) {
        const int root = root_of(graph, tensor);
        const Tensor& parameter = graph.tensors[root];
        if (parameter.role != TensorRole::Parameter || !parameter.requires_gradient) continue;
        if (std::vector<int>& held = holders[root]; held.empty() || held.back() != position) held.push_back(position);
      }
  return holders;
}

double squared_norm(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return 0;
  const bool wide =
      std::any_of(gradients.begin(), gradients.end(), [](const at::Tensor& g) { return g.scalar_type() == at::kDouble; });
  const at::Tensor norms = at::stack(at::_foreach_norm(gradients, 2, wide ? at::kDouble : at::kFloat)).to(at::kDouble);
  return norms.mul(norms).sum().item<double>();
}

Gradients::Gradients(RankSite& site, const SeededParameters& parameters, std::int64_t bucket_bytes, ShardedParameters* sharded,
                     WeightSlots* slots)
    : site_(site), holders_(holders_of(site.graph, site.layout, site.plan)), sharded_(sharded), weight_slots_(slots) {
  const RankGroups groups = make_own_groups();
  // By how many operators of its stages a parameter is read. A stage is cut where its ranks communicate and around blocks that
  // run again, and each segment has a backward of its own: several readers may add to the gradient apart.
  std::map<int, int> readers;
  for (const int stage : stages_of(site.plan, site_.place.position))
    for_each_read(site.graph, site.layout.stages[stage].first_operator, site.layout.stages[stage].end_operator,
                  [&](int root) { ++readers[root]; });
  const auto zeros = [&](const at::Tensor& like) { return slots != nullptr ? slots->zeros_on_host(like) : at::zeros_like(like); };
  for (const auto& [root, value] : parameters.trained()) {
    if (!value.requires_grad()) continue;
    const Tensor& tensor = site.graph.tensors[root];
    const std::vector<int> first = first_holders(tensor, site.plan);
    const int here = device_of_position(site.plan, site.transport.rank());
    Slot slot;
    slot.value = value;
    if (sharded_ != nullptr) {
      slot.gradient = sharded_->gradient(root);
      slot.counts = sharded_->counts() && holders_.at(root).front() == site_.place.position &&
                    std::find(first.begin(), first.end(), site_.place.shard) != first.end();
      roots_.push_back(root);
      slots_.push_back(std::move(slot));
      continue;
    }
    slot.wide = slots != nullptr || parameters.masters().at(root).scalar_type() != value.scalar_type();
    slot.counts = summed_over(root, site.transport.rank()).front() == site.transport.rank() &&
                  std::find(first.begin(), first.end(), here) != first.end();
    slot.late = (holders_.at(root).size() > 1 && site.layout.vocabulary.count(root) == 0) ||
                gradient_peers(tensor, here, site.plan).size() > 1;
    slot.once = readers[root] == 1;
    if (slot.wide) slot.gradient = zeros(parameters.masters().at(root));
    roots_.push_back(root);
    slots_.push_back(std::move(slot));
  }
  if (sharded_ != nullptr) return;
  find_last_actions();
  make_buckets(groups, bucket_bytes);
  make_sets();
  for (std::size_t i = 0; i < slots_.size() && slots != nullptr; ++i) slots->sum_into(roots_[i], slots_[i].gradient);
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].wide || slots_[i].bucket >= 0) hooks_.add(slots_[i].value, [this, i] { accumulated(i); });
}

// The ranks whose gradients of a parameter add up, ascending, for the rank `device` of its holders' devices or any rank of the
// world with the same place at its position of the pipeline. Rows of a vocabulary are the rank's own.
std::vector<int> Gradients::summed_over(int root, int device) const {
  const Tensor& parameter = site_.graph.tensors[root];
  const int of_position = site_.plan.devices_of_rank();
  std::vector<int> ranks;
  for (const int position : site_.layout.vocabulary.count(root) > 0 ? std::vector{device / of_position} : holders_.at(root))
    for (const int peer : gradient_peers(parameter, device % of_position, site_.plan))
      for (const int rank : group_of(site_.plan, among_replicas(parameter), position * of_position + peer)) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

RankGroups Gradients::make_own_groups() {
  std::set<std::vector<int>> wanted;
  for (int device = 0; device < site_.plan.device_count(); ++device)
    for (const auto& [root, positions] : holders_) wanted.insert(summed_over(root, device));
  add_groups(site_.plan, Among::ShardGroup, wanted);
  if (site_.plan.experts_apart()) add_groups(site_.plan, Among::ExpertData, wanted);
  RankGroups made = make_groups(site_.transport, wanted);
  if (site_.plan.shard_group() > 1) shard_group_ = made.at(group_of(site_.plan, Among::ShardGroup, site_.transport.rank()));
  if (site_.plan.experts_apart() && site_.plan.expert_holders() > 1)
    expert_shard_group_ = made.at(group_of(site_.plan, Among::ExpertData, site_.transport.rank()));
  return made;
}

const std::optional<Group>& Gradients::shard_group(std::size_t i) const {
  return site_.graph.tensors[roots_[i]].experts ? expert_shard_group_ : shard_group_;
}

void Gradients::find_last_actions() {
  const auto& order = site_.plan.schedule.order[site_.place.position];
  std::map<int, std::size_t> last;  // stage -> its last backward
  for (std::size_t a = 0; a < order.size(); ++a)
    if (order[a].kind == ActionKind::B || order[a].kind == ActionKind::I || order[a].kind == ActionKind::W ||
        order[a].kind == ActionKind::T || order[a].kind == ActionKind::G)
      last[order[a].stage] = a;
  arms_.resize(order.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    for (const auto& [stage, action] : last) {
      const auto& used = site_.layout.stages[stage].parameters;
      const bool uses =
          std::any_of(used.begin(), used.end(), [&](int tensor) { return root_of(site_.graph, tensor) == roots_[i]; });
      if (!uses || (slots_[i].stage >= 0 && action < slots_[i].last_action)) continue;
      slots_[i].last_action = action;
      slots_[i].stage = stage;
    }
    if (slots_[i].stage < 0 && !order.empty()) {  // this position only runs its forwards: it joins the sum with nothing
      slots_[i].last_action = order.size() - 1;
      slots_[i].stage = order.back().stage;
    }
    if (slots_[i].stage >= 0) arms_[slots_[i].last_action].push_back(i);
  }
}

// In the order in which gradients become whole: by their last backward, and inside it from the stage's end to its beginning,
// those with several readers last. Gradients that other ranks than the replicas hold too come last, by their holders and in graph
// order, which is the same on all of these ranks.
void Gradients::make_buckets(const RankGroups& groups, std::int64_t bucket_bytes) {
  std::vector<std::size_t> order(slots_.size());
  std::vector<std::vector<int>> ranks;
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    ranks.push_back(summed_over(roots_[i], site_.transport.rank()));
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (slots_[a].late != slots_[b].late) return slots_[b].late;
    if (slots_[a].late) return std::tie(ranks[a], roots_[a]) < std::tie(ranks[b], roots_[b]);
    return std::tuple(slots_[a].last_action, !slots_[a].once, -roots_[a]) <
           std::tuple(slots_[b].last_action, !slots_[b].once, -roots_[b]);
  });
  for (const std::size_t i : order) {
    Slot& slot = slots_[i];
    const auto group = groups.find(ranks[i]);
    if (group == groups.end()) continue;
    const at::ScalarType type = slot.wide ? slot.gradient.scalar_type() : slot.value.scalar_type();
    const auto fits = [&](const Bucket& bucket) {
      return bucket.group.id == group->second.id && bucket.type == type && (slot.late || bucket.stage == slot.stage) &&
             (bucket.elements + slot.value.numel()) * static_cast<std::int64_t>(c10::elementSize(type)) <= bucket_bytes;
    };
    if (buckets_.empty() || !fits(buckets_.back())) {
      Bucket& bucket = buckets_.emplace_back();
      bucket.group = group->second;
      bucket.type = type;
      bucket.stage = slot.stage;
      bucket.late = slot.late;
    }
    slot.bucket = static_cast<int>(buckets_.size()) - 1;
    buckets_.back().slots.push_back(i);
    buckets_.back().elements += slot.value.numel();
  }
  for (Bucket& bucket : buckets_) {
    std::vector<at::Tensor> values;
    for (const std::size_t i : bucket.slots) values.push_back(slots_[i].value);
    const at::TensorOptions options = at::TensorOptions().dtype(bucket.type);
    bucket.flat = weight_slots_ != nullptr ? weight_slots_->zeros_on_host(at::empty({bucket.elements}, options.device(at::kMeta)))
                                           : at::zeros({bucket.elements}, options.device(values.front().device()));
    values = at::unflatten_dense_tensors(bucket.flat, values);
    for (std::size_t k = 0; k < values.size(); ++k) slots_[bucket.slots[k]].gradient = std::move(values[k]);
  }
}

// In the order in which autograd comes by.
void Gradients::make_sets() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < slots_.size() && weight_slots_ == nullptr; ++i)
    if (slots_[i].wide && !slots_[i].value.device().is_cpu() && slots_[i].value.numel() <= GradientSets::kMost)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(slots_[a].stage, -roots_[a]) < std::tuple(slots_[b].stage, -roots_[b]);
  });
  for (const std::size_t i : order) sets_.add(i, slots_[i].gradient);
}

void Gradients::begin_step() {
  if (sharded_ != nullptr) return sharded_->begin(ShardedParameters::Passes::Step);
  const at::NoGradGuard no_graph;
  next_bucket_ = 0;
  std::vector<at::Tensor> sums;
  for (Slot& slot : slots_) {
    slot.value.mutable_grad() = at::Tensor();
    slot.armed = slot.ready = false;
    if (slot.wide)
      sums.push_back(slot.gradient);
    else if (slot.bucket < 0)
      slot.gradient = at::Tensor();  // else two steps' gradients would be alive at once
  }
  if (!sums.empty()) at::_foreach_zero_(sums);
  if (weight_slots_ != nullptr) weight_slots_->begin_step();
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<int>(bucket.slots.size());
    bucket.pending = nullptr;
  }
}

void Gradients::before_action(std::size_t index, bool evaluates) {
  if (evaluates || sharded_ != nullptr) return;
  for (const std::size_t i : arms_[index]) slots_[i].armed = true;
}

void Gradients::after_action(std::size_t index, bool evaluates) {
  if (evaluates) return;
  if (sharded_ != nullptr) return sharded_->after_action(site_.plan.schedule.order[site_.place.position][index]);
  sets_.flush();
  for (const std::size_t i : arms_[index])
    if (!slots_[i].ready) make_ready(i);  // no gradient came
}

// Autograd added a microbatch's gradient to the parameter's.
void Gradients::accumulated(std::size_t i) {
  const at::NoGradGuard no_graph;
  Slot& slot = slots_[i];
  if (weight_slots_ != nullptr)
    return weight_slots_->add_gradient(roots_[i], std::exchange(slot.value.mutable_grad(), at::Tensor()));
  if (slot.wide) {
    const at::Tensor arrived = std::exchange(slot.value.mutable_grad(), at::Tensor());
    if (!sets_.arrive(i, arrived)) slot.gradient.add_(arrived);
  }
  if (slot.armed && slot.once && !slot.ready) make_ready(i);
}

void Gradients::make_ready(std::size_t i) {
  const at::NoGradGuard no_graph;
  Slot& slot = slots_[i];
  slot.ready = true;
  if (slot.bucket >= 0) {
    if (!slot.wide) {
      if (slot.value.grad().defined())
        slot.gradient.copy_(slot.value.grad());
      else
        slot.gradient.zero_();
      slot.value.mutable_grad() = at::Tensor();
    }
    --buckets_[slot.bucket].missing;
    while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0 && !buckets_[next_bucket_].late)
      start(buckets_[next_bucket_++]);
  } else if (!slot.wide) {
    slot.gradient = slot.value.grad().defined() ? slot.value.grad() : at::zeros_like(slot.value, at::MemoryFormat::Contiguous);
  }
}

void Gradients::start(Bucket& bucket) {
  sets_.flush();
  bucket.started = {Clock::now(), DeviceMark::on(bucket.flat.device())};
  bucket.pending = site_.transport.all_reduce(bucket.flat, bucket.group);
}

void Gradients::finish() {
  if (sharded_ != nullptr) return sharded_->finish();
  if (weight_slots_ != nullptr) weight_slots_->finish();
  sets_.flush();
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (!slots_[i].ready) make_ready(i);
  while (next_bucket_ < buckets_.size()) start(buckets_[next_bucket_++]);
  for (Bucket& bucket : buckets_) {
    bucket.pending->wait(site_.deadline,
                         fmt::format("the sum of gradients of stage {} over {} ranks", bucket.stage, bucket.group.ranks.size()));
    Span span = span_on(site_.transport.rank(), Lane::Data, {.kind = ActionKind::ReduceGrad, .stage = bucket.stage},
                        static_cast<std::int64_t>(bucket.flat.nbytes()), "all_reduce");
    site_.spans.note(std::move(span), bucket.started, {site_.spans.done(*bucket.pending)});
  }
}

}  // namespace panpipe::exec
