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

StageMessages::StageMessages(RankSite& site, const std::vector<MicrobatchLength>& lengths) : site_(site), lengths_(lengths) {}

// In the shape of the slice's microbatch.
const Tensor& StageMessages::tensor_of(const Message& message, std::size_t number, int slice) const {
  const OperatorGraph* graph = &site_.graph;
  if (!lengths_.empty()) {
    const int microbatch = site_.layout.microbatch_of_step(message.from, slice / site_.layout.splits);
    graph = lengths_[static_cast<std::size_t>(site_.plan.length_of(site_.place.replica, microbatch))].graph;
  }
  return graph->tensors[static_cast<std::size_t>(message.tensors[number])];
}

void StageMessages::post_message(int index, int slice, bool backward) {
  const Message& message = this->message(index);
  const int other = rank_of_stage(site_.plan, backward ? message.to : message.from, site_.place);
  if (other == site_.transport.rank()) return;
  auto& posted = posted_[{index, {slice, backward}}];
  if (!posted.empty()) return;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    if (backward && !message.gradient[i]) continue;
    const Tensor& tensor = tensor_of(message, i, slice);
    const TensorSpec expected{tensor.shape, scalar_type(tensor.dtype), site_.device};
    posted.push_back({Clock::now(),
                      site_.transport.receive(expected, other, site_.layout.tag(index, static_cast<int>(i), slice, backward)),
                      static_cast<int>(i)});
  }
}

// The messages that the stage of a pass reads, or whose gradients it does.
std::vector<int> StageMessages::read_by(const Action& pass, bool backward) const {
  const StageRange& stage = site_.layout.stages[pass.stage];
  std::vector<int> found;
  for (const int index : backward ? stage.outgoing : stage.incoming)
    if (backward ? message(index).back : message(index).forth) found.push_back(index);
  return found;
}

void StageMessages::post(const Action& action) {
  const bool backward = starts_backward(action.kind);
  const bool makes_again = action.kind == ActionKind::R && !site_.layout.stages[action.stage].runs_forward;
  if (!backward && action.kind != ActionKind::F && !makes_again) return;
  for (const int index : read_by(action, backward)) post_message(index, site_.layout.slice_index(action), backward);
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
      .microbatch = site_.layout.in_own_step(of).microbatch};
  Span span = span_on(site_.transport.rank(), sends ? Lane::Send : Lane::Receive, action, bytes);
  span.peer = rank_of_stage(site_.plan, sends ? consumer : producer, site_.place);
  span.flow_id = static_cast<std::int32_t>(site_.layout.tag(index, 0, site_.layout.slice_index(of), backward));
  site_.spans.note(std::move(span), std::move(start), std::move(ends));
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
  const int stage = backward ? message.to : message.from, other = rank_of_stage(site_.plan, stage, site_.place);
  const int slice = site_.layout.slice_index(of);
  const Action shown = site_.layout.in_own_step(of);
  const MessageKey key{index, {slice, backward}};
  if (other == site_.transport.rank()) {
    auto node = local_.extract(key);
    PANPIPE_CHECK(!node.empty(), fmt::format("{}: nothing from stage {} of this rank", to_text(shown), stage));
    return std::move(node.mapped());
  }
  post_message(index, slice, backward);
  std::vector<at::Tensor> values(message.tensors.size());
  const std::string what = fmt::format("{}, waiting for the {} of microbatch {}{} from stage {} on rank {}", to_text(shown),
                                       backward ? "gradient" : "activation", shown.microbatch,
                                       site_.layout.splits > 1 ? fmt::format(", slice {},", of.split) : "", stage, other);
  auto arriving = posted_.extract(key);  // held by name: the loop must not outlive it
  std::vector<SpanLog::Moment> arrived;
  std::int64_t bytes = 0;
  for (Posted& posted : arriving.mapped()) {
    posted.pending->wait(site_.deadline, what);
    arrived.push_back(site_.spans.done(*posted.pending));
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
  const StageRange& stage = site_.layout.stages[action.stage];
  const int slice = site_.layout.slice_index(action);
  for (const int index : backward ? stage.incoming : stage.outgoing) {
    const Message& message = this->message(index);
    if (!(backward ? message.back : message.forth) || (evaluates && !site_.layout.stages[message.to].runs_forward)) continue;
    const int other = rank_of_stage(site_.plan, backward ? message.from : message.to, site_.place);
    std::vector<at::Tensor> sent;
    for (const int tensor : message.tensors) sent.push_back(values[position_in(tensors, tensor)]);
    if (other == site_.transport.rank()) {
      local_[{index, {slice, backward}}] = std::move(sent);
      continue;
    }
    const SpanLog::Moment ready = site_.spans.now();
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      at::Tensor& value = sent[i];
      if (backward && !message.gradient[i]) continue;
      if (!value.defined()) {  // no gradient flowed: the receiver still waits for one
        const Tensor& tensor = tensor_of(message, i, slice);
        value = at::zeros(tensor.shape, at::TensorOptions(scalar_type(tensor.dtype)).device(site_.device));
      }
      bytes += static_cast<std::int64_t>(value.nbytes());
      sends_.push_back(
          site_.transport.send(value.contiguous(), other, site_.layout.tag(index, static_cast<int>(i), slice, backward)));
    }
    if (bytes > 0) note_transfer(index, action, backward, true, ready, {site_.spans.now()}, bytes);
    std::erase_if(sends_, [](const PendingPtr& send) { return send->done(); });
  }
}

void StageMessages::drop(int index, int slice) {
  post_message(index, slice, false);
  auto arriving = posted_.extract({index, {slice, false}});
  for (Posted& posted : arriving.mapped()) posted.pending->wait(site_.deadline, "forwards that run again");
}

void StageMessages::finish(const std::string& what) {
  for (const PendingPtr& send : sends_) send->wait(site_.deadline, what);
  sends_.clear();
}

}  // namespace panpipe::exec
