// A pass of a rank: its steps, what it reads before the first of them, and what it leaves behind the last.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {
// A stage that runs backwards alone makes its forward in R.
bool Worker::runs_forward(const Action& action) const {
  return action.kind == ActionKind::F || (action.kind == ActionKind::R && !site_.layout.stages[action.stage].runs_forward);
}

// Microbatches over all steps and replicas.
std::int64_t Worker::sample_of(const StepRun& run, const Action& action) const {
  std::int64_t microbatch = site_.layout.microbatch_of_step(action.stage, action.microbatch);
  if (!options_.listed.empty())
    microbatch =
        options_.listed[panpipe::at(data_index(site_.plan, site_.place.replica) * site_.layout.microbatches + microbatch)];
  const std::int64_t step = step_of(run.row, action, run.step);
  return run.first_sample + (step * site_.layout.microbatches + microbatch) * site_.plan.data +
         data_index(site_.plan, site_.place.replica);
}

CallContext Worker::context_of(StepRun& run, const Action& action) {
  const std::int64_t draws =
      sample_of(run, action) * site_.layout.splits + std::max<int>(0, action.split);  // of each slice its own
  CallContext context{options_.seed, draws, options_.autocast};
  context.before_reading = &before_reading_;
  context.evaluates = run.evaluates;
  if (!run.evaluates) context.versions = options_.versions;  // else the latest
  context.version = std::max<std::int64_t>(0, step_of(run.row, action, run.step) - 1);
  if (!options_.lengths.empty()) context.samples = &options_.lengths[panpipe::at(length_of(action))].samples;
  if (site_.layout.splits == 1) return context;
  // The slices of a sequence meet in what they attend to, which lives as long as one of them.
  std::weak_ptr<AttendedSequence>& known = run.sequences[{action.stage, action.microbatch}];
  std::shared_ptr<AttendedSequence> sequence = known.lock();
  if (!sequence) known = sequence = std::make_shared<AttendedSequence>(site_.layout.splits, run.masks);
  const auto slice = std::make_shared<SequenceSlice>(SequenceSlice{action.split, &site_.layout.cut, std::move(sequence)});
  if (run.evaluates)
    run.slices.push_back(slice);
  else
    slice->partners = partners_of(options_.exchange, action, site_);
  context.slice = slice;
  return context;
}

Worker::Pass Worker::prepare(StepRun& run, const Action& action) {
  Pass pass{.action = action};
  const int slice = site_.layout.slice_index(action);
  switch (action.kind) {
    case ActionKind::F:
    case ActionKind::R: {
      if (!runs_forward(action)) {
        pass.steps = stage_of(action).recompute(slice);
        break;
      }
      const StageRange& range = site_.layout.stages[action.stage];
      const bool whole = site_.plan.stages[action.stage].recompute == Recompute::Full && !range.by_blocks;
      const bool drops = whole || recomputed_.count(key_of(action)) > 0 || !range.runs_backward;
      const bool recorded = !run.evaluates && !(drops && action.kind == ActionKind::F);
      pass.steps = stage_of(action).forward({slice, context_of(run, action), recorded});
      break;
    }
    case ActionKind::B:
    case ActionKind::I:
      pass.steps = stage_of(action).backward(action.kind, slice);
      break;
    case ActionKind::W:
      pass.steps = stage_of(action).weight_gradient(slice);
      break;
    case ActionKind::Offload:
    case ActionKind::Reload:
      pass.steps = {[this, action](Values&) { copy(action); }};
      break;
    case ActionKind::E:
    case ActionKind::S:
    case ActionKind::T:
    case ActionKind::G:
      pass.steps = {[this, action](Values& values) {
        vocabulary_->run(action, values.empty() ? at::Tensor() : values.front(), options_.loss_scale);
      }};
      break;
    default:
      break;  // sends and receives follow from the data
  }
  return pass;
}

// The part that a pass reads of an input of the whole sequence: a slice of it, or the tokens of a context-parallel rank.
at::Tensor Worker::own_part(int graph_tensor, const at::Tensor& whole, int slice) const {
  const int dimension = site_.layout.cut.empty() ? -1 : site_.layout.cut[graph_tensor];
  if (dimension < 0) return whole;
  if (share_.degree > 1) return share_.part(whole, dimension);
  const std::int64_t length = whole.size(dimension) / site_.layout.splits;
  return whole.narrow(dimension, length * slice, length).contiguous();
}

// Waiting for what a pass reads of other ranks is not its time.
void Worker::begin_pass(StepRun& run, Pass& pass) {
  const Action& action = pass.action;
  const bool forward = runs_forward(action), backward = starts_backward(action.kind);
  Values& values = pass.values;
  if (forward || backward) {
    const std::vector<int>& read = forward ? stage_of(action).inputs() : stage_of(action).outputs();
    values = messages_.take(action, read, backward);
    if (vocabulary_) vocabulary_->take_into(values, action, read, backward);
  }
  pass.started = site_.spans.now();
  if (forward)
    for (const int input : site_.layout.stages[action.stage].data) {
      at::Tensor whole = (*run.data)(input, sample_of(run, action));
      if (!options_.lengths.empty() && site_.layout.cut.empty())
        whole = first_part(std::move(whole),
                           options_.lengths[panpipe::at(length_of(action))].graph->tensors[panpipe::at(input)].shape);
      values[position_in(stage_of(action).inputs(), input)] = feed_.on_device(own_part(input, whole.contiguous(), action.split));
    }
  if (backward && site_.layout.stages[action.stage].has_loss) {
    const Tensor& loss = site_.graph.tensors[site_.graph.loss];
    const double share = options_.loss_scale * loss_share(run, action);
    values[position_in(stage_of(action).outputs(), site_.graph.loss)] =
        at::full(loss.shape, share / (static_cast<double>(site_.layout.microbatches) * site_.plan.data),
                 at::TensorOptions(scalar_type(loss.dtype)).device(site_.device));
  }
  if (!action.is_vocabulary()) return;
  if (const int input = vocabulary_->input_of(action.kind); input >= 0)
    values = {feed_.on_device((*run.data)(input, sample_of(run, action)))};
}

void Worker::end_pass(StepRun& run, Pass& pass) {
  const Action& action = pass.action;
  const bool backward = starts_backward(action.kind);
  const Values values = std::move(pass.values);
  if (action.kind != ActionKind::F && !backward) return;
  const std::vector<int>& made = backward ? stage_of(action).inputs() : stage_of(action).outputs();
  messages_.give(action, made, values, backward, run.evaluates);
  if (vocabulary_) vocabulary_->give(values, action, made, backward);
  if (backward) return;
  const StageRange& range = site_.layout.stages[action.stage];
  if (!range.runs_backward) stage_of(action).forget(site_.layout.slice_index(action));  // another stage runs it
  if (range.has_loss) note_loss(run, action, loss_share(run, action), values[position_in(made, site_.graph.loss)]);
}

void Worker::copy(const Action& action) {
  ParkedActivations& parked = *parked_.at(key_of(action));
  const CopyNote note = action.kind == ActionKind::Offload ? parked.offload() : parked.reload();
  site_.spans.note(span_on(site_.transport.rank(), Lane::Copy, site_.layout.in_own_step(action), note.bytes), note.start,
                   {note.end});
}

// The weight of a pass's loss in the mean over a microbatch's labels: its share of the labels that count. Of microbatches of
// unequal length each token of the step counts alike.
double Worker::loss_share(const StepRun& run, const Action& action) const {
  if (site_.layout.cut.empty())
    return options_.lengths.empty() ? 1 : options_.lengths[panpipe::at(length_of(action))].loss_weight;
  constexpr std::int64_t kIgnoredLabel = -100;  // PyTorch's default ignore_index
  const auto even = 1.0 / (site_.layout.splits * share_.degree);
  if (labels_ < 0) return even;
  const at::Tensor counted = (*run.data)(labels_, sample_of(run, action)).ne(kIgnoredLabel);
  const auto all = counted.sum().item<std::int64_t>();
  if (all == 0) return even;
  const auto own = own_part(labels_, counted, action.split).sum().item<std::int64_t>();
  return static_cast<double>(own) / static_cast<double>(all);
}

void Worker::note_loss(StepRun& run, const Action& action, double share, const at::Tensor& value) {
  if (share == 0) return;  // a slice without a label that counts: the mean over none of them is no number
  // A host on its own reads it at once; it would wait for a GPU, in every microbatch.
  if (site_.device.is_cpu()) return report_loss(run, action, share, value.item<double>());
  if (!losses_.defined()) {
    const std::int64_t most =
        std::ssize(site_.plan.schedule.order[panpipe::at(site_.place.position)]) * site_.layout.steps_under_way;
    losses_ = at::empty({most}, at::TensorOptions(value.scalar_type()).pinned_memory(true));
  }
  losses_[std::ssize(run.noted)].copy_(value, /*non_blocking=*/true);
  run.noted.push_back({action, share});
}

void Worker::take_vocabulary_losses(StepRun& run) {
  if (!vocabulary_) return;
  for (const auto& [action, loss] : vocabulary_->take_losses()) note_loss(run, action, 1, loss);
}

void Worker::report_loss(StepRun& run, const Action& action, double share, double value) {
  double loss = value;
  if (!run.evaluates) {
    loss = fault_.loss(to_text(site_.layout.in_own_step(action)), step_of(run.row, action, run.step), value);
    if (options_.finite_losses && !std::isfinite(loss)) {
      const int microbatch = site_.layout.microbatch_of_step(action.stage, action.microbatch);
      if (!run.provisional) refuse_loss(run, microbatch, loss);
      if (!run.refused) run.refused = {microbatch, loss};  // the update may be taken back
    }
  }
  if (groups_.member(Among::Tensor) == 0) run.result.loss_sum += share * loss;
}

void Worker::refuse_loss(const StepRun& run, int microbatch, double loss) const {
  const char* value = std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf";
  throw NoAnswer(fmt::format("step {}: the loss of microbatch {} is {} (rank {}, replica {})", run.step + 1, microbatch, value,
                             site_.transport.rank(), site_.place.replica));
}

void Worker::read_losses(StepRun& run) {
  if (!run.noted.empty()) site_.transport.settle(site_.device, site_.deadline, "the losses of the step");
  for (std::size_t i = 0; i < run.noted.size(); ++i)
    report_loss(run, run.noted[i].action, run.noted[i].share, losses_[static_cast<std::int64_t>(i)].item<double>());
  run.noted.clear();
}

}  // namespace panpipe::exec
