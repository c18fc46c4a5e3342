#include "exec/engine/stage_messages.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/stage/scalar_types.hpp"

namespace panpipe::exec {

std::size_t position_in(const std::vector<int>& names, int tensor) {
  const auto found = std::find(names.begin(), names.end(), tensor);
  PANPIPE_CHECK(found != names.end(), fmt::format("tensor {} is not of this stage", tensor));
  return static_cast<std::size_t>(found - names.begin());
}

StageMessages::StageMessages(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, Transport& transport,
                             at::Device device, Clock::duration deadline, SpanLog& spans,
                             const std::vector<MicrobatchLength>& lengths)
    : graph_(graph),
      plan_(plan),
      layout_(layout),
      transport_(transport),
      device_(device),
      deadline_(deadline),
      place_(place_of(plan, transport.rank())),
      spans_(spans) {
  for (const MicrobatchLength& length : lengths) of_length_.push_back(length.graph);
}

// In the shape of the slice's microbatch.
const Tensor& StageMessages::tensor_of(const Message& message, std::size_t number, int slice) const {
  const OperatorGraph* graph = &graph_;
  if (!of_length_.empty()) {
    const int microbatch = layout_.microbatch_of_step(message.from, slice / layout_.splits);
    graph = of_length_[static_cast<std::size_t>(plan_.length_of(place_.replica, microbatch))];
  }
  return graph->tensors[static_cast<std::size_t>(message.tensors[number])];
}

void StageMessages::post_message(int index, int slice, bool backward) {
  const Message& message = this->message(index);
  const int other = rank_of_stage(plan_, backward ? message.to : message.from, place_);
  if (other == transport_.rank()) return;
  auto& posted = posted_[{index, {slice, backward}}];
  if (!posted.empty()) return;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    if (backward && !message.gradient[i]) continue;
    const Tensor& tensor = tensor_of(message, i, slice);
    const TensorSpec expected{tensor.shape, scalar_type(tensor.dtype), device_};
    posted.push_back({Clock::now(), transport_.receive(expected, other, layout_.tag(index, static_cast<int>(i), slice, backward)),
                      static_cast<int>(i)});
  }
}

// The messages that the stage of a pass reads, or whose gradients it does.
std::vector<int> StageMessages::read_by(const Action& pass, bool backward) const {
  const StageRange& stage = layout_.stages[pass.stage];
  std::vector<int> found;
  for (const int index : backward ? stage.outgoing : stage.incoming)
    if (backward ? message(index).back : message(index).forth) found.push_back(index);
  return found;
}

void StageMessages::post(const Action& action) {
  const bool backward = starts_backward(action.kind);
  const bool makes_again = action.kind == ActionKind::R && !layout_.stages[action.stage].runs_forward;
  if (!backward && action.kind != ActionKind::F && !makes_again) return;
  for (const int index : read_by(action, backward)) post_message(index, layout_.slice_index(action), backward);
}

// One span per message for any number of tensors, as in predictions.
void StageMessages::note_transfer(int index, const Action& of, bool backward, bool sends, SpanLog::Moment start,
                                  std::vector<SpanLog::Moment> ends, std::int64_t bytes) {
  const Message& message = this->message(index);
  const int producer = backward ? message.to : message.from, consumer = backward ? message.from : message.to;
  const Action action{
      .kind = backward ? (sends ? ActionKind::SendB : ActionKind::RecvB) : (sends ? ActionKind::SendF : ActionKind::RecvF),
      .split = of.split,
      .stage = sends ? producer : consumer,
      .microbatch = layout_.in_own_step(of).microbatch};
  Span span = span_on(transport_.rank(), sends ? Lane::Send : Lane::Receive, action, bytes);
  span.peer = rank_of_stage(plan_, sends ? consumer : producer, place_);
  span.flow_id = static_cast<std::int32_t>(layout_.tag(index, 0, layout_.slice_index(of), backward));
  spans_.note(std::move(span), std::move(start), std::move(ends));
}

// Consumers in the order of their stages: the sum of their gradients does not depend on who was first.
std::vector<at::Tensor> StageMessages::take(const Action& action, const std::vector<int>& tensors, bool backward) {
  std::vector<at::Tensor> values(tensors.size());
  for (const int index : read_by(action, backward)) {
    std::vector<at::Tensor> arrived = receive(index, action, backward);
    for (std::size_t i = 0; i < arrived.size(); ++i) {
      if (!arrived[i].defined()) continue;
      at::Tensor& value = values[position_in(tensors, message(index).tensors[i])];
      value = value.defined() ? value.add(arrived[i]) : std::move(arrived[i]);
    }
  }
  return values;
}

std::vector<at::Tensor> StageMessages::receive(int index, const Action& of, bool backward) {
  const Message& message = this->message(index);
  const int stage = backward ? message.to : message.from, other = rank_of_stage(plan_, stage, place_);
  const int slice = layout_.slice_index(of);
  const Action shown = layout_.in_own_step(of);
  const MessageKey key{index, {slice, backward}};
  if (other == transport_.rank()) {
    auto node = local_.extract(key);
    PANPIPE_CHECK(!node.empty(), fmt::format("{}: nothing from stage {} of this rank", to_text(shown), stage));
    return std::move(node.mapped());
  }
  post_message(index, slice, backward);
  std::vector<at::Tensor> values(message.tensors.size());
  const std::string what = fmt::format("{}, waiting for the {} of microbatch {}{} from stage {} on rank {}", to_text(shown),
                                       backward ? "gradient" : "activation", shown.microbatch,
                                       layout_.splits > 1 ? fmt::format(", slice {},", of.split) : "", stage, other);
  auto arriving = posted_.extract(key);  // held by name: the loop must not outlive it
  std::vector<SpanLog::Moment> arrived;
  std::int64_t bytes = 0;
  for (Posted& posted : arriving.mapped()) {
    posted.pending->wait(deadline_, what);
    arrived.push_back(spans_.done(*posted.pending));
    at::Tensor& value = values[posted.tensor];
    value = std::move(posted.pending->value);
    bytes += static_cast<std::int64_t>(value.nbytes());
    charge_to_this_thread(value);
  }
  if (!arrived.empty()) note_transfer(index, of, backward, false, {arriving.mapped().front().at, {}}, std::move(arrived), bytes);
  return values;
}

void StageMessages::give(const Action& action, const std::vector<int>& tensors, const std::vector<at::Tensor>& values,
                         bool backward, bool evaluates) {
  const StageRange& stage = layout_.stages[action.stage];
  const int slice = layout_.slice_index(action);
  for (const int index : backward ? stage.incoming : stage.outgoing) {
    const Message& message = this->message(index);
    if (!(backward ? message.back : message.forth) || (evaluates && !layout_.stages[message.to].runs_forward)) continue;
    const int other = rank_of_stage(plan_, backward ? message.from : message.to, place_);
    std::vector<at::Tensor> sent;
    for (const int tensor : message.tensors) sent.push_back(values[position_in(tensors, tensor)]);
    if (other == transport_.rank()) {
      local_[{index, {slice, backward}}] = std::move(sent);
      continue;
    }
    const SpanLog::Moment ready = spans_.now();
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      at::Tensor& value = sent[i];
      if (backward && !message.gradient[i]) continue;
      if (!value.defined()) {  // no gradient flowed: the receiver still waits for one
        const Tensor& tensor = tensor_of(message, i, slice);
        value = at::zeros(tensor.shape, at::TensorOptions(scalar_type(tensor.dtype)).device(device_));
      }
      bytes += static_cast<std::int64_t>(value.nbytes());
      sends_.push_back(transport_.send(value.contiguous(), other, layout_.tag(index, static_cast<int>(i), slice, backward)));
    }
    if (bytes > 0) note_transfer(index, action, backward, true, ready, {spans_.now()}, bytes);
    std::erase_if(sends_, [](const PendingPtr& send) { return send->done(); });
  }
}

void StageMessages::drop(int index, int slice) {
  post_message(index, slice, false);
  auto arriving = posted_.extract({index, {slice, false}});
  for (Posted& posted : arriving.mapped()) posted.pending->wait(deadline_, "forwards that run again");
}

void StageMessages::finish(const std::string& what) {
  for (const PendingPtr& send : sends_) send->wait(deadline_, what);
  sends_.clear();
}

}  // namespace panpipe::exec
