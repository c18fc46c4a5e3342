#include "costmodel/lowering/replayed_sharding.hpp"

#include <algorithm>

#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {
namespace {

using Space = ReplaySpace;
using Stream = ReplayStream;

template <class BytesOf>
double sum(const ReplayedSharding::Unit& unit, BytesOf bytes_of) {
  double all = 0;
  for (const ParameterUse* use : unit.uses) all += static_cast<double>(use->elements) * bytes_of(*use);
  return all;
}

}  // namespace

ReplayedSharding::ReplayedSharding(const Lowering& lowering, ReplayedTensors& tensors)
    : lowering_(lowering),
      tensors_(tensors),
      sharded_(lowering.zero() >= 2 &&
               mixed_precision_in_effect(lowering.scenario.framework, lowering.plan) == MixedPrecision::Sharded),
      flat_(sharded_ && lowering.scenario.framework.gradient_accumulation == GradientAccumulation::Flat),
      sums_whole_(keeps_whole_gradients(lowering.scenario, lowering.plan)),
      reduced_(lowering.costs.reduced_bytes()) {}

double ReplayedSharding::whole_element() const {
  return static_cast<double>(size_of(compute_dtype(lowering_.scenario.precision)).base());
}

double ReplayedSharding::shards(bool experts) const {
  return experts ? degrees_of_experts(lowering_.plan).shard_group() : lowering_.plan.shard_group();
}

void ReplayedSharding::add_uses(const StageInfo& info, int unit, Unit& into) const {
  for (const ParameterUse& use : info.unit(unit).parameters)
    if (std::none_of(into.uses.begin(), into.uses.end(), [&](const auto* other) { return other->tensor == use.tensor; }))
      into.uses.push_back(&use);
}

ReplayedSharding::Unit ReplayedSharding::of_block(const StageInfo& info, int first, int end) const {
  if (!sharded_ || info.unit(first).block.empty()) return {};
  Unit unit{first, {}};
  for (int u = first; u < end; ++u) add_uses(info, u, unit);
  return unit;
}

ReplayedSharding::Unit ReplayedSharding::of_root(const StageInfo& info) const {
  constexpr int kRoots = -100;
  if (!sharded_) return {};
  Unit unit{kRoots - info.first_unit, {}};
  for (int u = info.first_unit; u < info.end_unit; ++u)
    if (info.unit(u).block.empty()) add_uses(info, u, unit);
  return unit;
}

// FSDP 2's gather fills a buffer, which is gone when the parameters are copied out of it. FSDP 1 gathers into one flat parameter,
// whose shard it casts (torch/distributed/fsdp/_flat_param.py, unshard). The compute stream may still read the last one that was
// dropped; limit_all_gathers waits for the one before (_limiter_utils.py, a queue of two).
void ReplayedSharding::gather(const Unit& unit) {
  if (unit.name == Unit::kNone) return;
  const double whole = sum(unit, [&](const ParameterUse&) { return whole_element(); });
  const auto shard = tensor_key(Space::Scratch, unit.name);
  if (flat_) {
    const auto flat = tensor_key(Space::Whole, unit.name);
    if (tensors_.holds(flat)) return;
    for (; late_.size() > 1; late_.pop_front()) tensors_.give(late_.front());
    if (is_mixed(lowering_.scenario.precision))
      tensors_.take(shard, sum(unit, [&](const ParameterUse& use) { return whole_element() / shards(use.experts); }),
                    Stream::Casts);
    tensors_.take(flat, whole, Stream::Gathers);
    tensors_.give(shard);
    return;
  }
  tensors_.take(shard, whole, Stream::Gathers);
  for (const ParameterUse* use : unit.uses)
    tensors_.take(tensor_key(Space::Whole, use->tensor), static_cast<double>(use->elements) * whole_element());
  tensors_.give(shard);
}

void ReplayedSharding::drop(const Unit& unit) {
  if (unit.name == Unit::kNone) return;
  if (!flat_) {
    for (const ParameterUse* use : unit.uses) tensors_.give(tensor_key(Space::Whole, use->tensor));
    return;
  }
  late_.push_back(tensor_key(Space::Late, names_++));
  tensors_.give_late(tensor_key(Space::Whole, unit.name), late_.back());
}

void ReplayedSharding::give_new_gradients(const Unit& unit) {
  for (const ParameterUse* use : unit.uses) tensors_.give(tensor_key(Space::NewGradient, use->tensor));
}

void ReplayedSharding::end_backward(const Unit& unit, bool last) {
  if (sum(unit, [](const ParameterUse&) { return 1.0; }) == 0) return drop(unit);
  if (flat_) return end_flat(unit);
  drop(unit);
  if (sums_whole_) {
    for (const ParameterUse* use : unit.uses)
      tensors_.add_to(tensor_key(Space::Sums, use->tensor), static_cast<double>(use->elements) * reduced_);
    give_new_gradients(unit);
    if (!last) return;
  }
  // FSDP 2 copies a unit's gradients to the buffer of the reduce-scatter, which leaves this rank's shard
  // (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce).
  const auto buffer = tensor_key(Space::Reduced, unit.name);
  tensors_.take(buffer, sum(unit, [&](const ParameterUse&) { return reduced_; }));
  give_new_gradients(unit);
  for (const ParameterUse* use : unit.uses) tensors_.give(tensor_key(Space::Sums, use->tensor));
  tensors_.add_to(tensor_key(Space::Gradients, unit.name), shard_bytes(unit), Stream::Reductions);
  tensors_.give(buffer);
}

double ReplayedSharding::shard_bytes(const Unit& unit) const {
  if (sums_whole_) return sum(unit, [&](const ParameterUse& use) { return reduced_ / shards(use.experts); });
  return sum(unit, [&](const ParameterUse& use) {
    return use.experts ? lowering_.costs.expert_bytes().gradient : lowering_.costs.gradient_bytes();
  });
}

// FSDP 1: the backward of the views that its parameters are lays their gradients out in one tensor, on the stream that made the
// views; it is cast to be reduced, and the shard is cast to the parameter's format (torch/distributed/fsdp/_runtime_utils.py,
// _post_backward_hook).
void ReplayedSharding::end_flat(const Unit& unit) {
  const auto flat = tensor_key(Space::Flat, unit.name), cast = tensor_key(Space::Reduced, unit.name),
             sent = tensor_key(Space::Sums, unit.name);
  const auto every = [](double bytes) { return [bytes](const ParameterUse&) { return bytes; }; };
  tensors_.take(flat, sum(unit, every(whole_element())), Stream::Gathers);
  give_new_gradients(unit);
  drop(unit);
  if (reduced_ != whole_element()) tensors_.take(cast, sum(unit, every(reduced_)), Stream::Reductions);
  const double shard = shard_bytes(unit);
  const double bytes = sum(unit, [&](const ParameterUse& use) { return reduced_ / shards(use.experts); });
  if (bytes != shard) tensors_.take(sent, bytes, Stream::Reductions);
  tensors_.add_to(tensor_key(Space::Gradients, unit.name), shard, Stream::Reductions);
  tensors_.give(sent);
  tensors_.give(cast);
  tensors_.give(flat);
}

}  // namespace panpipe
