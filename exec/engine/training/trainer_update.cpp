// The update behind a step's gradients: what ranks decide together, and what they take back.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flatten_dense_tensors.h>
#include <ATen/ops/unflatten_dense_tensors.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "exec/engine/measure/gathered.hpp"
#include "exec/engine/training/gradient_dump.hpp"
#include "exec/engine/training/learning_rate.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

// Everything after the gradients: what all ranks must decide together, they decide from the same numbers in the same order.
void Trainer::update(StepRun& run) {
  const at::NoGradGuard no_graph;
  const TrainingRequest& training = run_.experiment.scenario.training;
  const double scale = scaler_.scale();
  notes_ = {};
  notes_.loss_scale = scale;
  notes_.learning_rate = learning_rate(run_.experiment.scenario.optimizer, training, at_.updates);
  if (!run_.request.dump_gradients.empty() && run.step + 1 == run_.request.warmup + run_.request.steps)
    dump_gradients(*this, scale, run_.request.dump_gradients);
  if (versions_) versions_->advance();

  double factor = 1 / scale;
  if (decides() || !run_.request.metrics.empty()) {
    worker_.read_losses(run);  // which end the run in better words than the norm of what came of them
    std::vector<at::Tensor> counted;
    for (std::size_t i = 0; i < gradients_.roots().size(); ++i)
      if (gradients_.counts(i)) counted.push_back(gradients_.of(i));
    notes_.squared_norm = squared_norm(counted);
  }
  if (numbers_) {
    unchecked_.emplace(Unchecked{run.step, scale, numbers_->post({notes_.squared_norm}), changed_by_update()});
    for (const at::Tensor& value : unchecked_->changed) unchecked_->before.push_back(value.clone());
  } else if (decides()) {
    double total = 0;
    for (const double own : gathered(site_.transport, notes_.squared_norm, site_.deadline, "the norm of the gradients"))
      total += own;
    factor *= clipping_of(total, scale, run.step, notes_.skipped);
  }
  notes_.squared_norm /= scale * scale;
  if (notes_.skipped || run_.experiment.scenario.optimizer.name == "none") return;

  // A host's update is no work of the device.
  const auto now = [&] { return slots_ ? SpanLog::Moment{Clock::now(), {}} : site_.spans.now(); };
  const SpanLog::Moment start = now();
  apply(factor);
  site_.spans.note(span_on(site_.transport.rank(), Lane::Compute, {.kind = ActionKind::Opt}), start, {now()});
  if (sharded_) sharded_->updated();
  ++at_.updates;
}

bool Trainer::decides() const { return run_.experiment.scenario.training.clip_gradients > 0 || scaler_.dynamic(); }

// By what gradients are multiplied, besides 1 / scale; the same on all ranks.
double Trainer::clipping_of(double total, double scale, std::int64_t step_index, bool& skipped) {
  const double most = run_.experiment.scenario.training.clip_gradients;
  skipped = scaler_.dynamic() && !std::isfinite(total);
  scaler_.update(skipped, step_index);
  if (most <= 0 || skipped) return 1;
  const double norm = std::sqrt(total) / scale;
  if (!std::isfinite(norm))
    throw NoAnswer(fmt::format("step {}: the norm of the gradients is {}; they cannot be clipped", step_index + 1, norm));
  return std::min(1.0, most / (norm + 1e-6));  // as torch.nn.utils.clip_grad_norm_
}

// And by the forwards behind it.
std::vector<at::Tensor> Trainer::changed_by_update() const {
  std::vector<at::Tensor> changed;
  for (const std::size_t i : updated_) {
    const int root = gradients_.roots()[i];
    if (!parameters_.masters().at(root).is_alias_of(parameters_.trained().at(root)))
      changed.push_back(parameters_.masters().at(root));
  }
  for (const int root : gradients_.roots()) changed.push_back(parameters_.trained().at(root));
  for (std::size_t u = 0; u < updated_.size(); ++u)
    for (std::size_t kind = 0; kind < kinds_of(gradients_.roots()[updated_[u]]).size(); ++kind)
      changed.push_back(optimizer_->state(kind, u));
  for (const auto& [root, buffer] : parameters_.buffers())
    if (site_.graph.tensors[root].written) changed.push_back(buffer);
  return changed;
}

// When all norms are there: true if the update was the right one. Else it is taken back, and made as it should have been.
bool Trainer::update_stands() {
  skipped_before_ = false;
  if (!unchecked_) return true;
  const at::NoGradGuard no_graph;
  double total = 0;
  for (const std::vector<double>& row : numbers_->wait(unchecked_->norms, site_.deadline, "the norm of the gradients"))
    total += row[0];
  const double clipping = clipping_of(total, unchecked_->scale, unchecked_->step, skipped_before_);
  const Unchecked last = std::move(*unchecked_);
  unchecked_.reset();
  if (!skipped_before_ && clipping == 1) return true;
  for (std::size_t i = 0; i < last.changed.size(); ++i) last.changed[i].copy_(last.before[i]);
  if (run_.experiment.scenario.optimizer.name == "none") return true;
  optimizer_->set_updates(--at_.updates);
  if (skipped_before_) return false;
  apply(clipping);  // gradients were multiplied by 1 / scale before
  ++at_.updates;
  return false;
}

void Trainer::begin_step() {
  gradients_.begin_step();
  worker_.set_loss_scale(scaler_.scale());
}

void Trainer::apply(double factor) {
  std::optional<UncountedMemory> host;
  if (slots_) host.emplace();
  std::vector<at::Tensor> gradients;
  for (const std::size_t i : updated_) gradients.push_back(gradients_.of(i));
  if (factor != 1 && !gradients.empty()) at::_foreach_mul_(gradients, factor);
  optimizer_->step(gradients, at_.updates);
  if (sharded_) return;
  if (slots_) return slots_->updated();
  std::vector<at::Tensor> copies, masters;
  for (const std::size_t i : updated_) {
    const at::Tensor& value = parameters_.trained().at(gradients_.roots()[i]);
    const at::Tensor& master = parameters_.masters().at(gradients_.roots()[i]);
    if (value.scalar_type() == master.scalar_type()) continue;
    copies.push_back(value.detach());
    masters.push_back(master);
  }
  if (!copies.empty()) at::_foreach_copy_(copies, masters);
  if (site_.plan.zero == 1) share_updates();
}

// ZeRO 1: each member of a shard group has updated its share; one message per member and element type brings it to the others, of
// experts to those that hold the same.
void Trainer::share_updates() {
  struct Share {
    std::vector<at::Tensor> values{};
    const Group* group = nullptr;
    std::int64_t elements = 0;
    bool mine = false;
    at::Tensor flat{};
    PendingPtr pending{};
  };
  // of experts, by whom, of which type: the same order on all of a group
  std::map<std::tuple<bool, int, at::ScalarType>, Share> shares;
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (owner_[i] < 0) continue;
    const int root = gradients_.roots()[i];
    const at::Tensor value = parameters_.trained().at(root).detach();
    Share& share = shares[{site_.graph.tensors[root].experts, owner_[i], value.scalar_type()}];
    share.group = &*gradients_.shard_group(i);
    share.mine = owner_[i] == own_share(i);
    share.elements += value.numel();
    share.values.push_back(value);
  }
  for (auto& [key, share] : shares) {
    share.flat =
        share.mine ? at::flatten_dense_tensors(share.values) : at::empty({share.elements}, share.values.front().options());
    share.pending = site_.transport.broadcast(share.flat, share.group->ranks[std::get<int>(key)], *share.group);
  }
  for (auto& [key, share] : shares) {
    share.pending->wait(site_.deadline, "the updated parameters of the other replicas");
    if (!share.mine) at::_foreach_copy_(share.values, at::unflatten_dense_tensors(share.flat, share.values));
  }
}

}  // namespace panpipe::exec
