#include "exec/engine/worker.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/error.hpp"
#include "exec/engine/scalar_types.hpp"

namespace panpipe::exec {
namespace {

std::size_t position_in(const std::vector<int>& names, int tensor) {
  const auto found = std::find(names.begin(), names.end(), tensor);
  PANPIPE_CHECK(found != names.end(), fmt::format("tensor {} is not of this stage", tensor));
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

Worker::Worker(const OperatorGraph& graph, const Plan& plan, const Layout& layout, int position, int replica,
               const ParameterStore& parameters, DataSource data, Transport& transport, const WorkerOptions& options)
    : graph_(graph),
      plan_(plan),
      layout_(layout),
      position_(position),
      replica_(replica),
      data_(std::move(data)),
      transport_(transport),
      options_(options),
      fault_(transport.rank()) {
  for (std::size_t s = 0; s < layout.stages.size(); ++s) {
    if (plan.schedule.stage_to_rank[s] != position) continue;
    const StageRange& range = layout.stages[s];
    const bool recompute = plan.stages[s].recompute == Recompute::Full;
    stages_.emplace(static_cast<int>(s), std::make_unique<Stage>(graph, range.first_operator, range.end_operator, range.outputs,
                                                                 parameters, layout.needs_gradient, recompute, options_.device));
  }
}

int Worker::rank_of_stage(int stage) const {
  return plan_.schedule.stage_to_rank[static_cast<std::size_t>(stage)] * plan_.data + replica_;
}

std::string Worker::doing() const { return doing_; }

void Worker::post_message(int index, int microbatch, bool backward) {
  const Message& message = layout_.messages[static_cast<std::size_t>(index)];
  const int other = rank_of_stage(backward ? message.to : message.from);
  if (other == transport_.rank()) return;
  auto& posted = posted_[{index, {microbatch, backward}}];
  if (!posted.empty()) return;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    if (backward && !message.gradient[i]) continue;
    const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(message.tensors[i])];
    const TensorSpec expected{tensor.shape, scalar_type(tensor.dtype), options_.device};
    posted.push_back({Clock::now(),
                      transport_.receive(expected, other, layout_.tag(index, static_cast<int>(i), microbatch, backward)),
                      static_cast<int>(i)});
  }
}

// Receives are posted in the order of the actions that need them, a few actions ahead, so that data travel while others compute.
void Worker::post_receives(std::size_t from_action, std::size_t to_action) {
  const auto& order = plan_.schedule.order[static_cast<std::size_t>(position_)];
  for (std::size_t a = from_action; a < std::min(to_action, order.size()); ++a) {
    const Action& action = order[a];
    if (!action.is_compute()) continue;
    const StageRange& range = layout_.stages[static_cast<std::size_t>(action.stage)];
    if (action.kind == ActionKind::F)
      for (const int message : range.incoming) post_message(message, action.microbatch, false);
    if (action.kind == ActionKind::B || action.kind == ActionKind::I)
      for (const int message : range.outgoing) post_message(message, action.microbatch, true);
  }
}

std::vector<at::Tensor> Worker::take_message(int index, int microbatch, bool backward, const std::string& action) {
  const Message& message = layout_.messages[static_cast<std::size_t>(index)];
  const int stage = backward ? message.to : message.from, other = rank_of_stage(stage);
  const MessageKey key{index, {microbatch, backward}};
  if (other == transport_.rank()) {
    auto node = local_.extract(key);
    PANPIPE_CHECK(!node.empty(), fmt::format("{}: nothing from stage {} of this rank", action, stage));
    return std::move(node.mapped());
  }
  post_message(index, microbatch, backward);
  std::vector<at::Tensor> values(message.tensors.size());
  doing_ = fmt::format("{}, waiting for the {} of microbatch {} from stage {} on rank {}", action,
                       backward ? "gradient" : "activation", microbatch, stage, other);
  auto arriving = posted_.extract(key);  // held by name: the loop must not outlive it
  Clock::time_point arrived{};
  std::int64_t bytes = 0;
  for (Posted& posted : arriving.mapped()) {
    posted.pending->wait(options_.deadline, doing_);
    arrived = std::max(arrived, posted.pending->completed == Clock::time_point{} ? Clock::now() : posted.pending->completed);
    at::Tensor& value = values[static_cast<std::size_t>(posted.tensor)];
    value = std::move(posted.pending->value);
    bytes += static_cast<std::int64_t>(value.nbytes());
    charge_to_this_thread(value);
  }
  if (!arriving.mapped().empty()) note_transfer(index, microbatch, backward, false, arriving.mapped().front().at, arrived, bytes);
  doing_ = action;
  return values;
}

void Worker::give_message(int index, int microbatch, bool backward, const std::vector<at::Tensor>& values) {
  const Message& message = layout_.messages[static_cast<std::size_t>(index)];
  const int other = rank_of_stage(backward ? message.from : message.to);
  if (other == transport_.rank()) {
    local_[{index, {microbatch, backward}}] = values;
    return;
  }
  const Clock::time_point ready = Clock::now();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (backward && !message.gradient[i]) continue;
    at::Tensor value = values[i];
    if (!value.defined()) {  // no gradient flowed: the receiver still waits for one
      const Tensor& tensor = graph_.tensors[static_cast<std::size_t>(message.tensors[i])];
      value = at::zeros(tensor.shape, at::TensorOptions(scalar_type(tensor.dtype)).device(options_.device));
    }
    bytes += static_cast<std::int64_t>(value.nbytes());
    sends_.push_back(transport_.send(value.contiguous(), other, layout_.tag(index, static_cast<int>(i), microbatch, backward)));
  }
  if (bytes > 0) note_transfer(index, microbatch, backward, true, ready, Clock::now(), bytes);
  std::erase_if(sends_, [](const PendingPtr& send) { return send->done(); });
}

Duration Worker::since_start(Clock::time_point time) const {
  return seconds(std::chrono::duration<double>(time - result_->started).count());
}

// One span per message, however many tensors it has: as predictions count.
void Worker::note_transfer(int index, int microbatch, bool backward, bool sends, Clock::time_point start, Clock::time_point end,
                           std::int64_t bytes) {
  const Message& message = layout_.messages[static_cast<std::size_t>(index)];
  const int producer = backward ? message.to : message.from, consumer = backward ? message.from : message.to;
  Span span;
  span.device = transport_.rank();
  span.lane = sends ? Lane::Send : Lane::Receive;
  span.action.kind = backward ? (sends ? ActionKind::SendB : ActionKind::RecvB) : (sends ? ActionKind::SendF : ActionKind::RecvF);
  span.action.stage = sends ? producer : consumer;
  span.action.microbatch = microbatch;
  span.peer = rank_of_stage(sends ? consumer : producer);
  span.start = since_start(start);
  span.end = since_start(end);
  span.bytes = Bytes(bytes);
  span.flow_id = static_cast<std::int32_t>(layout_.tag(index, 0, microbatch, backward));
  result_->spans.push_back(std::move(span));
}

void Worker::forward(const Action& action, StepResult& result) {
  Stage& stage = *stages_.at(action.stage);
  const StageRange& range = layout_.stages[static_cast<std::size_t>(action.stage)];
  const std::string name = to_text(action);
  const std::int64_t sample = options_.first_sample + (step_ * layout_.microbatches + action.microbatch) * plan_.data + replica_;
  std::vector<at::Tensor> values(stage.inputs().size());
  for (const int index : range.incoming) {
    const Message& message = layout_.messages[static_cast<std::size_t>(index)];
    std::vector<at::Tensor> arrived = take_message(index, action.microbatch, false, name);
    for (std::size_t i = 0; i < arrived.size(); ++i)
      values[position_in(stage.inputs(), message.tensors[i])] = std::move(arrived[i]);
  }
  begin_work();
  for (const int input : range.data) values[position_in(stage.inputs(), input)] = data_(input, sample).to(options_.device);
  const std::vector<at::Tensor> outputs =
      stage.forward(action.microbatch, std::move(values), {options_.seed, sample, options_.autocast});
  for (const int index : range.outgoing) {
    const Message& message = layout_.messages[static_cast<std::size_t>(index)];
    std::vector<at::Tensor> sent;
    for (const int tensor : message.tensors) sent.push_back(outputs[position_in(stage.outputs(), tensor)]);
    give_message(index, action.microbatch, false, sent);
  }
  if (action.stage == layout_.loss_stage) {
    const double loss = fault_.loss(name, step_, outputs[position_in(stage.outputs(), graph_.loss)].item<double>());
    if (options_.on_loss) options_.on_loss(action.microbatch, loss);
    result.loss_sum += loss;
  }
}

void Worker::backward(const Action& action) {
  Stage& stage = *stages_.at(action.stage);
  const StageRange& range = layout_.stages[static_cast<std::size_t>(action.stage)];
  const std::string name = to_text(action);
  std::vector<at::Tensor> gradients(stage.outputs().size());
  if (action.stage == layout_.loss_stage) {
    const Tensor& loss = graph_.tensors[static_cast<std::size_t>(graph_.loss)];
    gradients[position_in(stage.outputs(), graph_.loss)] =
        at::full(loss.shape, options_.loss_scale / (static_cast<double>(layout_.microbatches) * plan_.data),
                 at::TensorOptions(scalar_type(loss.dtype)).device(options_.device));
  }
  // Consumers in the order of their stages: the sum does not depend on who was first.
  for (const int index : range.outgoing) {
    const Message& message = layout_.messages[static_cast<std::size_t>(index)];
    const std::vector<at::Tensor> arrived = take_message(index, action.microbatch, true, name);
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      if (!arrived[i].defined()) continue;
      at::Tensor& sum = gradients[position_in(stage.outputs(), message.tensors[i])];
      sum = sum.defined() ? sum.add(arrived[i]) : arrived[i];
    }
  }
  begin_work();
  const std::vector<at::Tensor> found = action.kind == ActionKind::B ? stage.backward(action.microbatch, gradients)
                                                                     : stage.input_gradient(action.microbatch, gradients);
  for (const int index : range.incoming) {
    const Message& message = layout_.messages[static_cast<std::size_t>(index)];
    std::vector<at::Tensor> sent;
    for (const int tensor : message.tensors) sent.push_back(found[position_in(stage.inputs(), tensor)]);
    give_message(index, action.microbatch, true, sent);
  }
}

namespace {

c10::Event marked(c10::Device device) {
  c10::Event event(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // with timing
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

}  // namespace

void Worker::begin_work() {
  work_started_ = Clock::now();
  if (!options_.device.is_cpu()) work_mark_ = marked(options_.device);
}

// Times of the span, about to be stored: final on a CPU, the host's until read_marks() on a GPU.
void Worker::end_work(Span& span) {
  span.start = since_start(work_started_);  // once its inputs were there: waiting is not the action's time
  span.end = since_start(Clock::now());
  if (work_mark_) marks_.push_back({result_->spans.size(), std::move(*work_mark_), marked(options_.device)});
  work_mark_.reset();
}

void Worker::read_marks() {
  if (marks_.empty()) return;
  marks_.back().end.synchronize();
  for (const Marks& mark : marks_) {
    result_->spans[mark.span].start = millis(step_mark_->elapsedTime(mark.start));
    result_->spans[mark.span].end = millis(step_mark_->elapsedTime(mark.end));
  }
  marks_.clear();
}

StepResult Worker::step(std::int64_t step_index) {
  step_ = step_index;
  StepResult result;
  result_ = &result;
  const auto& order = plan_.schedule.order[static_cast<std::size_t>(position_)];
  const auto ahead = static_cast<std::size_t>(std::max(1, options_.receives_ahead));
  result.spans.reserve(order.size() * (1 + layout_.messages.size()) + 64);  // so that measuring does not allocate
  if (!options_.device.is_cpu()) {
    step_mark_ = marked(options_.device);
    step_mark_->synchronize();
  }
  result.started = Clock::now();
  for (std::size_t a = 0; a < order.size(); ++a) {
    const Action& action = order[a];
    post_receives(a, a + ahead);
    if (!action.is_compute()) continue;  // sends and receives follow from the data
    doing_ = to_text(action);
    transport_.doing(fmt::format("{} of step {}", doing_, step_index));
    fault_.before(doing_, step_index);
    Span span;
    span.device = transport_.rank();
    span.lane = Lane::Compute;
    span.action = action;
    begin_work();
    if (options_.before_action) options_.before_action(a);
    switch (action.kind) {
      case ActionKind::F:
        forward(action, result);
        break;
      case ActionKind::B:
      case ActionKind::I:
        backward(action);
        break;
      case ActionKind::W:
        stages_.at(action.stage)->weight_gradient(action.microbatch);
        break;
      case ActionKind::R:
        stages_.at(action.stage)->recompute(action.microbatch);
        break;
      default:
        break;
    }
    end_work(span);
    result.spans.push_back(span);
    if (options_.after_action) options_.after_action(a);
  }
  doing_ = "the end of the step, waiting for its sends to be taken";
  for (const PendingPtr& send : sends_) send->wait(options_.deadline, doing_);
  sends_.clear();
  doing_ = "the end of the step";
  read_marks();
  result_ = nullptr;
  return result;
}

}  // namespace panpipe::exec
