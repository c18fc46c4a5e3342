#include "exec/engine/worker.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/braid_order.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/mixed_bits.hpp"
#include "exec/engine/slices/slice_graph.hpp"
#include "exec/engine/stage/scalar_types.hpp"

namespace panpipe::exec {

namespace {

// A context-parallel rank reads the rows of its tokens in a table of positions.
class PartsOfSequence : public ParameterStore {
 public:
  PartsOfSequence(const ParameterStore& whole, const std::vector<int>& cut, SequenceShare share)
      : whole_(&whole), cut_(&cut), share_(share) {}

  at::Tensor tensor(int graph_tensor) const override {
    const int dimension = (*cut_)[graph_tensor];
    if (dimension < 0) return whole_->tensor(graph_tensor);
    at::Tensor& part = parts_[graph_tensor];
    if (!part.defined()) part = share_.part(whole_->tensor(graph_tensor), dimension);
    return part;
  }

 private:
  const ParameterStore* whole_;
  const std::vector<int>* cut_;
  SequenceShare share_;
  mutable std::map<int, at::Tensor> parts_;
};

// Ranks with other tokens draw other random numbers.
std::uint64_t seed_of(std::uint64_t seed, const SequenceShare& share) {
  return share.degree == 1 ? seed : seed ^ mixed_bits(static_cast<std::uint64_t>(share.rank));
}

}  // namespace

Worker::Worker(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, int position, int replica,
               const ParameterStore& parameters, DataSource data, Transport& transport, const WorkerOptions& options)
    : graph_(graph),
      plan_(plan),
      layout_(layout),
      position_(position),
      replica_(replica),
      data_(std::move(data)),
      transport_(transport),
      options_(options),
      share_{member_of(plan, Among::Context, transport.rank()), plan.context},
      labels_(layout.cut.empty() ? -1 : labels_of(graph)),
      fault_(transport.rank()),
      spans_(options.device),
      messages_(graph, plan, layout, transport, options.device, options.deadline, action_, spans_, options.lengths),
      feed_(options.device),
      groups_(plan, transport, options.deadline, spans_) {
  options_.seed = seed_of(options.seed, share_);
  before_reading_ = [this] {
    transport_.settle(options_.device, options_.deadline, fmt::format("{}, waiting for the row counts of its experts", action_));
  };
  if (plan.context > 1) own_parts_ = std::make_unique<PartsOfSequence>(parameters, layout.cut, share_);
  if (options.autocast) copies_ = std::make_unique<WeightCopies>(*options.autocast);
  for (const MicrobatchLength& length : options_.lengths)
    of_length_.push_back(std::make_unique<FirstOfSequence>(parameters, *length.graph));
  for (std::size_t s = 0; s < layout.stages.size(); ++s)
    if (plan.schedule.stage_to_rank[s] == position) make_stage(static_cast<int>(s), own_parts_ ? *own_parts_ : parameters);
  vocabulary_ = vocabulary_of(parameters);
  if (options_.update_stands) ahead_ = forwards_ahead(plan.schedule, layout);
  for (int step = 0; step < layout.steps_under_way; ++step)
    for (const Action& action : row_of_step(plan.schedule, position, step, true, true).order)
      if (action.kind == ActionKind::R)
        recomputed_.insert(key_of(action));
      else if (action.kind == ActionKind::Offload)
        parked_[key_of(action)] = nullptr;
}

void Worker::make_stage(int stage, const ParameterStore& parameters) {
  const auto add = [&](int length, const OperatorGraph& graph, const ParameterStore& store) {
    auto& made = stages_[{stage, length}];
    if (!made)
      made = std::make_unique<SegmentedStage>(graph, layout_.stages[stage], store, layout_.needs_gradient, options_.device,
                                              groups_, copies_.get(), options_.gate);
  };
  if (options_.lengths.empty()) return add(0, graph_, parameters);
  for (int m = 0; m < layout_.microbatches_of_chain(); ++m) {
    const int length = plan_.length_of(replica_, layout_.microbatch_of_step(stage, m));
    add(length, *options_.lengths[panpipe::at(length)].graph, *of_length_[panpipe::at(length)]);
  }
}

int Worker::length_of(const Action& action) const {
  if (options_.lengths.empty()) return 0;
  return plan_.length_of(replica_, microbatch_of_step(action));
}

const OperatorGraph& Worker::graph_of(const Action& action) const {
  return options_.lengths.empty() ? graph_ : *options_.lengths[panpipe::at(length_of(action))].graph;
}

// Each token of the step counts alike.
double Worker::loss_weight(const Action& action) const {
  return options_.lengths.empty() ? 1 : options_.lengths[panpipe::at(length_of(action))].loss_weight;
}

CallContext Worker::context_of(const Action& action, std::int64_t draws, std::shared_ptr<const SequenceSlice> slice) const {
  CallContext context{options_.seed, draws, options_.autocast, std::move(slice)};
  context.before_reading = &before_reading_;
  context.versions = options_.versions;
  context.version = std::max<std::int64_t>(0, step_and_microbatch(row_, action, step_).first - 1);
  if (!options_.lengths.empty()) context.samples = &options_.lengths[panpipe::at(length_of(action))].samples;
  return context;
}

std::unique_ptr<VocabularyParts> Worker::vocabulary_of(const ParameterStore& parameters) {
  if (plan_.schedule.vocabulary_barriers == 0) return nullptr;
  return std::make_unique<VocabularyParts>(
      graph_, plan_, parameters, transport_, options_.device, options_.deadline, spans_,
      [this](int input, int microbatch) {
        return feed_.on_device(data_(input, sample_of({.kind = ActionKind::S, .stage = position_, .microbatch = microbatch})));
      },
      [this](const Action& action, const at::Tensor& loss) { note_loss(action, 1, loss); });
}

VocabularyParts* Worker::before_first(const Action& action) const {
  return action.stage == plan_.schedule.chains.front().front() ? vocabulary_.get() : nullptr;
}
VocabularyParts* Worker::behind_last(const Action& action) const {
  return action.stage == plan_.schedule.chains.front().back() ? vocabulary_.get() : nullptr;
}

// Microbatches over all steps and replicas.
std::int64_t Worker::sample_of(const Action& action) const {
  const std::int64_t step = step_and_microbatch(row_, action, step_).first;
  std::int64_t microbatch = microbatch_of_step(action);
  if (!options_.listed.empty())
    microbatch = options_.listed[panpipe::at(data_index(plan_, replica_) * layout_.microbatches + microbatch)];
  return options_.first_sample + (step * layout_.microbatches + microbatch) * plan_.data + data_index(plan_, replica_);
}

int Worker::microbatch_of_step(const Action& action) const {
  return layout_.microbatch_of_step(action.stage, step_and_microbatch(row_, action, step_).second);
}

// The slices of a sequence meet in what they attend to, which lives as long as one of them.
std::shared_ptr<const SequenceSlice> Worker::slice_of(const Action& action, std::shared_ptr<AttentionPartners> partners) {
  if (layout_.splits == 1) return nullptr;
  std::weak_ptr<AttendedSequence>& known = sequences_[{action.stage, action.microbatch}];
  std::shared_ptr<AttendedSequence> sequence = known.lock();
  if (!sequence) known = sequence = std::make_shared<AttendedSequence>(layout_.splits, masks_);
  return std::make_shared<SequenceSlice>(SequenceSlice{action.split, &layout_.cut, std::move(sequence), std::move(partners)});
}

// The part that a pass reads of an input of the whole sequence: a slice of it, or the tokens of a context-parallel rank.
at::Tensor Worker::own_part(int graph_tensor, const at::Tensor& whole, int slice) const {
  const int dimension = layout_.cut.empty() ? -1 : layout_.cut[graph_tensor];
  if (dimension < 0) return whole;
  if (share_.degree > 1) return share_.part(whole, dimension);
  const std::int64_t length = whole.size(dimension) / layout_.splits;
  return whole.narrow(dimension, length * slice, length).contiguous();
}

// The weight of a pass's loss in the mean over a microbatch's labels: its share of the labels that count.
double Worker::loss_share(const Action& action) {
  if (layout_.cut.empty()) return loss_weight(action);
  constexpr std::int64_t kIgnoredLabel = -100;  // PyTorch's default ignore_index
  const auto even = 1.0 / (layout_.splits * share_.degree);
  if (labels_ < 0) return even;
  const at::Tensor counted = data_(labels_, sample_of(action)).ne(kIgnoredLabel);
  const auto all = counted.sum().item<std::int64_t>();
  if (all == 0) return even;
  const auto own = own_part(labels_, counted, action.split).sum().item<std::int64_t>();
  return static_cast<double>(own) / static_cast<double>(all);
}

// The inputs of a forward pass of a stage: activations that arrive, and data.
std::vector<at::Tensor> Worker::take_inputs(const Action& action, std::int64_t sample) {
  const std::vector<int>& inputs = stage_of(action).inputs();
  const OperatorGraph& graph = graph_of(action);
  std::vector<at::Tensor> values = messages_.take_inputs(action, inputs);
  if (VocabularyParts* parts = before_first(action))
    values[position_in(inputs, parts->tensors().embedded)] = parts->embedded(action.microbatch);
  begin_work(*running_);
  for (const int input : layout_.stages[action.stage].data) {
    const at::Tensor whole =
        first_part(data_(input, sample), layout_.cut.empty() ? graph.tensors[input].shape : Shape{}).contiguous();
    values[position_in(inputs, input)] = feed_.on_device(own_part(input, whole, action.split));
  }
  return values;
}

Steps Worker::forward(const Action& action) {
  SegmentedStage& stage = stage_of(action);
  const std::int64_t sample = sample_of(action);
  const Recompute recompute = plan_.stages[action.stage].recompute;
  const bool whole = recompute == Recompute::Full && !layout_.stages[action.stage].by_blocks;
  const bool drop = whole || recomputed_.count(key_of(action)) > 0;
  const AttentionRun exchange{&graph_, &layout_, &transport_, options_.deadline, &spans_, &partner_waits_};
  const std::shared_ptr<const SequenceSlice> slice = slice_of(action, partners_of(options_.exchange, action, exchange, plan_));
  const std::int64_t draws = sample * layout_.splits + std::max<int>(0, action.split);  // each slice its own random numbers
  const CallContext context = context_of(action, draws, slice);
  const auto take = [this, action, sample] { return take_inputs(action, sample); };
  if (action.kind == ActionKind::R)  // of a stage that runs backwards alone: nobody reads its outputs
    return stage.forward(layout_.slice_index(action), context, false, take, [](const std::vector<at::Tensor>&) {});
  const bool leaves = !layout_.stages[action.stage].runs_backward;  // then nothing is kept: another stage runs the backward
  const auto give = [this, action, &stage, leaves](const std::vector<at::Tensor>& outputs) {
    messages_.give_outputs(action, stage.outputs(), outputs);
    if (leaves) stage.forget(layout_.slice_index(action));
    if (VocabularyParts* parts = behind_last(action))
      parts->give_hidden(action.microbatch, outputs[position_in(stage.outputs(), parts->tensors().hidden)]);
    if (layout_.stages[action.stage].has_loss)
      note_loss(action, loss_share(action), outputs[position_in(stage.outputs(), graph_.loss)]);
  };
  return stage.forward(layout_.slice_index(action), context, drop || leaves, take, give);
}

void Worker::note_loss(const Action& action, double share, const at::Tensor& value) {
  if (share == 0) return;  // a slice without a label that counts: the mean over none of them is no number
  // A host on its own reads it at once; it would wait for a GPU, in every microbatch.
  if (options_.device.is_cpu()) return report_loss(action, share, value.item<double>(), *result_);
  if (!losses_.defined()) {
    const auto& order = row_.order;
    const auto forwards = std::count_if(order.begin(), order.end(), [](const Action& a) { return a.kind == ActionKind::F; });
    losses_ = at::empty({forwards}, at::TensorOptions(value.scalar_type()).pinned_memory(true));
  }
  losses_[std::ssize(noted_)].copy_(value, /*non_blocking=*/true);
  noted_.push_back({action, share});
}

void Worker::report_loss(const Action& action, double share, double value, StepResult& result) {
  const double loss = fault_.loss(to_text(layout_.in_own_step(action)), step_and_microbatch(row_, action, step_).first, value);
  if (options_.on_loss) options_.on_loss(microbatch_of_step(action), loss);
  if (groups_.member(Among::Tensor) == 0) result.loss_sum += share * loss;
}

void Worker::read_losses(StepResult& result) {
  if (!noted_.empty()) transport_.settle(options_.device, options_.deadline, "the losses of the step");
  for (std::size_t i = 0; i < noted_.size(); ++i) {
    const auto& [action, share] = noted_[i];
    report_loss(action, share, losses_[static_cast<std::int64_t>(i)].item<double>(), result);
  }
  noted_.clear();
}

Steps Worker::backward(const Action& action) {
  SegmentedStage& stage = stage_of(action);
  return stage.backward(
      action.kind, layout_.slice_index(action),
      [this, action, &stage] {
        std::vector<at::Tensor> gradients = messages_.take_gradients(action, stage.outputs());
        if (VocabularyParts* parts = behind_last(action))
          gradients[position_in(stage.outputs(), parts->tensors().hidden)] = parts->hidden_gradient(action.microbatch);
        begin_work(*running_);
        if (layout_.stages[action.stage].has_loss) {
          const Tensor& loss = graph_.tensors[graph_.loss];
          gradients[position_in(stage.outputs(), graph_.loss)] = at::full(
              loss.shape, options_.loss_scale * loss_share(action) / (static_cast<double>(layout_.microbatches) * plan_.data),
              at::TensorOptions(scalar_type(loss.dtype)).device(options_.device));
        }
        return gradients;
      },
      [this, action, &stage](const std::vector<at::Tensor>& gradients) {
        messages_.give_gradients(action, stage.inputs(), gradients);
        if (VocabularyParts* parts = before_first(action))
          parts->give_embedding_gradient(action.microbatch, gradients[position_in(stage.inputs(), parts->tensors().embedded)]);
      });
}

Steps Worker::copy(const Action& action) {
  return {[this, action] {
    ParkedActivations& parked = *parked_.at(key_of(action));
    SpanLog::Moment start{Clock::now(), {}}, end;
    CopyNote note = action.kind == ActionKind::Offload ? parked.offload() : parked.reload();
    Span span;
    span.device = transport_.rank();
    span.lane = Lane::Copy;
    span.action = layout_.in_own_step(action);
    span.bytes = Bytes(note.bytes);
    end.host = Clock::now();
    if (note.end) {
      start.mark = DeviceMark(std::move(*note.start));
      end.mark = DeviceMark(std::move(*note.end));
    }
    spans_.note(std::move(span), start, {end});
  }};
}

Worker::Running Worker::prepare(std::size_t index) {
  Running running;
  running.index = index;
  running.action = row_.order[index];
  const Action& action = running.action;
  switch (action.kind) {
    case ActionKind::F:
      running.steps = forward(action);
      break;
    case ActionKind::B:
    case ActionKind::I:
      running.steps = backward(action);
      break;
    case ActionKind::W:
      running.steps = stage_of(action).weight_gradient(layout_.slice_index(action));
      break;
    case ActionKind::R:
      running.steps =
          layout_.stages[action.stage].runs_forward ? stage_of(action).recompute(layout_.slice_index(action)) : forward(action);
      break;
    case ActionKind::Offload:
    case ActionKind::Reload:
      running.steps = copy(action);
      break;
    case ActionKind::E:
    case ActionKind::S:
    case ActionKind::T:
    case ActionKind::G:
      running.steps = {[this, action] {
        begin_work(*running_);
        vocabulary_->run(action, options_.loss_scale, running_->waits);
      }};
      break;
    default:
      break;  // sends and receives follow from the data
  }
  return running;
}

// Once its inputs are there: waiting for them is not the action's time.
void Worker::begin_work(Running& running) { running.started = spans_.now(); }

void Worker::end_work(Running& running) {
  Span span;
  span.device = transport_.rank();
  span.lane = Lane::Compute;
  span.action = layout_.in_own_step(running.action);
  spans_.note(std::move(span), std::move(running.started), {spans_.now()}, std::move(running.waits));
}

void Worker::run_step(Running& running) {
  const bool first = running.next == 0, computes = running.action.is_compute() || running.action.is_vocabulary();
  const bool starts_at_once = running.action.kind == ActionKind::W ||
                              (running.action.kind == ActionKind::R && layout_.stages[running.action.stage].runs_forward);
  const auto parked = parked_.find(key_of(running.action));
  if (parked != parked_.end() && running.action.kind == ActionKind::F && running.next == 0)
    parked->second = std::make_unique<ParkedActivations>(options_.device);
  const Action shown = layout_.in_own_step(running.action);
  const std::int64_t step = step_and_microbatch(row_, running.action, step_).first;
  action_ = to_text(shown);
  transport_.set_action(fmt::format("{} of step {}", action_, step));
  if (first) fault_.before(action_, step);
  running_ = &running;
  groups_.set_action(shown);
  if (first && starts_at_once) begin_work(running);
  {
    const bool captures = parked != parked_.end() && running.action.kind == ActionKind::F;
    const ParkedActivations::Capture capture(captures ? parked->second.get() : nullptr);
    running.steps[running.next++]();
  }
  groups_.move_waits_to(running.waits);
  std::move(partner_waits_.begin(), partner_waits_.end(), std::back_inserter(running.waits));
  partner_waits_.clear();
  if (options_.gate != nullptr) options_.gate->move_waits_to(running.waits);
  if (running.next < running.steps.size()) return;
  if (computes) end_work(running);
}

// Does weaving these gain anything, and may they be? Two that add to the same weight gradients may not: it is watched which of
// them is the last.
bool Worker::can_weave(std::size_t first, std::size_t members) const {
  if (!groups_.any() || members == 1) return false;
  const auto& order = row_.order;
  std::set<int> stages;
  for (std::size_t index = first; index < first + members; ++index) {
    const Action& action = order[index];
    if (!action.is_compute()) return false;
    if ((action.kind == ActionKind::B || action.kind == ActionKind::W) && !stages.insert(action.stage).second) return false;
  }
  return true;
}

// Members that are not woven are prepared and run one after the other.
void Worker::run_cell(std::size_t first, std::size_t members) {
  if (!can_weave(first, members)) {
    for (std::size_t index = first; index < first + members; ++index) {
      Running running = prepare(index);
      if (running.steps.empty()) continue;
      if (options_.before_action) options_.before_action(row_.in_plan[index]);
      while (running.next < running.steps.size()) run_step(running);
      if (options_.after_action) options_.after_action(row_.in_plan[index]);
    }
    return;
  }
  std::vector<Running> cell;
  std::vector<int> steps;
  for (std::size_t index = first; index < first + members; ++index) {
    cell.push_back(prepare(index));
    steps.push_back(static_cast<int>(cell.back().steps.size()));
    if (options_.before_action) options_.before_action(row_.in_plan[index]);
  }
  for (const int member : woven(steps)) run_step(cell[member]);
  for (std::size_t index = first; index < first + members && options_.after_action; ++index)
    options_.after_action(row_.in_plan[index]);
}

StepResult Worker::step(std::int64_t step_index) {
  StepResult result = run(step_index);
  end(result);
  return result;
}

void Worker::end(StepResult& result) {
  transport_.settle(options_.device, options_.deadline, "the end of the step");
  read_losses(result);
  result.spans = spans_.take();
}

StepResult Worker::run(std::int64_t step_index, bool drains) {
  step_ = step_index;
  StepResult result;
  result_ = &result;
  row_ = row_of_step(plan_.schedule, position_, step_, idle_, drains);
  idle_ = drains;
  const auto& order = row_.order;
  const auto ahead = static_cast<std::size_t>(std::max(1, options_.receives_ahead));
  noted_.clear();
  transport_.settle(options_.device, options_.deadline, "the start of the step");
  spans_.begin(order.size() * (1 + layout_.messages.size()) + 64);
  result.started = spans_.started();
  if (copies_) copies_->refresh();
  bool asked = ahead_.empty();
  if (vocabulary_) vocabulary_->begin_step();
  for (std::size_t first = 0; first < order.size();) {
    if (!asked && first >= ahead_[static_cast<std::size_t>(position_)]) {
      asked = true;
      if (!options_.update_stands()) {
        forget_forwards(result);
        first = 0;
        continue;
      }
    }
    const std::size_t members = std::min<std::size_t>(std::max<std::size_t>(1, order[first].group_size), order.size() - first);
    for (std::size_t a = first; a < std::min(first + members - 1 + ahead, order.size()); ++a) messages_.post(order[a]);
    if (vocabulary_) vocabulary_->before(first);
    run_cell(first, members);
    if (vocabulary_) vocabulary_->after();
    first += members;
  }
  if (vocabulary_) vocabulary_->finish();
  action_ = "the end of the step, waiting for its sends to be taken";
  if (drains) messages_.finish();
  action_ = "the end of the step";
  masks_->clear();
  sequences_.clear();
  result_ = nullptr;
  running_ = nullptr;
  return result;
}

}  // namespace panpipe::exec
