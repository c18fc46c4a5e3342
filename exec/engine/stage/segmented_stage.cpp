#include "exec/engine/stage/segmented_stage.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "costmodel/workload/attention_operator.hpp"
#include "exec/engine/mixed_bits.hpp"

namespace panpipe::exec {
namespace {

constexpr std::int64_t kTokensOfHeads = 2;  // the dimension of exchanged heads
constexpr std::array kAttentionOperands = {"query", "key", "value"};

std::int64_t integer_argument(const Operator& op, std::string_view name) {
  return value_argument<std::int64_t>(op, name).value();
}

// The sequence's, of operators that cut it.
std::int64_t dimension_of(const Operator& op) { return value_argument<std::int64_t>(op, "dim").value_or(0); }

bool grows_tokens(const Operator& exchange) { return integer_argument(exchange, "grows") == kTokensOfHeads; }

// Without communication, against a gather in the other direction: each rank takes its part of what all have.
bool takes_own_part(CollectiveKind kind, CollectiveKind other_way) {
  return kind == CollectiveKind::None && other_way == CollectiveKind::AllGather;
}

AttentionForm attention_form(const Operator& op, const ParameterStore& parameters) {
  const AttentionSettings settings = attention_settings(op);
  const auto by_head = [&parameters](int tensor) { return tensor < 0 ? at::Tensor() : parameters.tensor(tensor); };
  return {.causal = settings.causal,
          .scale = settings.scale,
          .window = settings.window,
          .cap = settings.cap,
          .slopes = by_head(settings.slopes),
          .sinks = by_head(settings.sinks),
          .dropout = settings.dropout};
}

bool contains(const std::vector<int>& sorted, int value) { return std::binary_search(sorted.begin(), sorted.end(), value); }

// Random operators draw the same on ranks that compute the same, and something else where the work is divided.
CallContext context_of(const CallContext& context, bool divided, int shard) {
  CallContext own = context;
  if (divided) own.seed ^= 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(shard);
  return own;
}

}  // namespace

SegmentedStage::SegmentedStage(const OperatorGraph& graph, const StageRange& range, const ParameterStore& parameters,
                               const std::vector<bool>& needs_gradient, at::Device device, const PassGroups& groups,
                               WeightCopies* copies, ParameterGate* gate)
    : graph_(graph), groups_(groups), gate_(gate), outputs_(range.outputs) {
  const std::vector<StagePart> cut = cut_at_collectives(graph, range);
  std::set<int> made, read;
  for (const StagePart& part : cut) {
    parts_.emplace_back().range = part;
    parts_.back().listed = std::any_of(range.listed.begin(), range.listed.end(),
                                       [&](const RecomputedOperator& op) { return op.index == part.first_operator; });
    PANPIPE_CHECK(group_of(parts_.back()) != nullptr || !(posts(parts_.back(), false) || posts(parts_.back(), true)),
                  fmt::format("{} communicates, but there are no ranks to do so", operator_of(parts_.back()).target));
    if (part.communicates && role_of(parts_.back()) == OperatorRole::Attention)
      parts_.back().form = std::make_unique<AttentionForm>(attention_form(operator_of(parts_.back()), parameters));
    // A stage of one segment gives its outputs in the stage's own order.
    const std::vector<int>& outputs = cut.size() == 1 ? range.outputs : part.makes;
    if (!part.communicates)
      parts_.back().stage = std::make_unique<Stage>(graph, part.first_operator, part.end_operator, outputs, parameters,
                                                    needs_gradient, part.again, device, copies);
    if (parts_.back().stage) parts_.back().stage->set_recomputed(range.listed);
    for (const int tensor : part.reads)
      if (made.count(tensor) == 0) read.insert(tensor);
    made.insert(part.makes.begin(), part.makes.end());
  }
  inputs_.assign(read.begin(), read.end());
  mark_groups();
}

void SegmentedStage::mark_groups() {
  if (gate_ == nullptr) return;
  std::set<int> seen;
  for (Part& part : parts_) part.first = part.range.group >= 0 && seen.insert(part.range.group).second;
  seen.clear();
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    part->last = part->range.group >= 0 && seen.insert(part->range.group).second;
}

// Around the parts of a pass: a group's parameters are whole from the first to the last of those that need them.
void SegmentedStage::open(const Part& part, bool backward) {
  if (backward ? part.last : part.first) gate_->open(part.range.group);
}

void SegmentedStage::close(const Part& part, bool backward, bool gradients) {
  if (backward ? part.first : part.last) gate_->close(part.range.group, gradients);
}

const Operator& SegmentedStage::operator_of(const Part& part) const { return graph_.operators[part.range.first_operator]; }

OperatorRole SegmentedStage::role_of(const Part& part) const { return row_of(operator_of(part)).role; }

SegmentedStage::Value SegmentedStage::exchanged(PassGroup& group, const at::Tensor& value, bool grows_tokens) {
  const int degree = group.degree();
  return {{},
          group.post(CollectiveKind::AllToAll, rows_of_heads(value, grows_tokens, degree)),
          &group,
          [degree, grows_tokens](const at::Tensor& rows) { return value_of_rows(rows, grows_tokens, degree); }};
}

PassGroup* SegmentedStage::group_of(const Part& part) const { return groups_.of(operator_of(part).among); }

bool SegmentedStage::posts(const Part& part, bool backward) const {
  if (!part.range.communicates) return false;
  const Operator& op = operator_of(part);
  return (backward ? op.backward_collective : op.forward_collective) != CollectiveKind::None;
}

// Parts [first, end) of each step in the order of execution, which for a backward counts from the last part: a step ends with
// the part that posts a collective.
std::vector<std::pair<std::size_t, std::size_t>> SegmentedStage::stretches(bool backward) const {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  std::size_t first = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const bool last = p + 1 == parts_.size();
    if (!last && !posts(parts_[backward ? parts_.size() - 1 - p : p], backward)) continue;
    found.emplace_back(first, p + 1);
    first = p + 1;
  }
  return found;
}

at::Tensor SegmentedStage::resolve(Value& value) {
  if (value.posted) {
    value.tensor = value.by->take(*std::exchange(value.posted, nullptr));
    if (value.after) value.tensor = value.after(value.tensor);
  }
  return value.tensor;
}

// Handed over at its last use.
at::Tensor SegmentedStage::take_value(ForwardFlow& flow, const Part& part, int tensor) {
  const auto found = flow.values.find(tensor);
  PANPIPE_CHECK(found != flow.values.end(), fmt::format("tensor {} is not there yet", tensor));
  resolve(found->second);
  if (!contains(part.range.dead, tensor)) return found->second.tensor;
  at::Tensor value = std::move(found->second.tensor);
  flow.values.erase(found);
  return value;
}

at::Tensor SegmentedStage::take_gradient(BackwardFlow& flow, int tensor) {
  const at::NoGradGuard no_graph;
  auto found = flow.gradients.extract(tensor);
  if (found.empty()) return {};
  at::Tensor sum;
  for (Value& part : found.mapped()) {
    at::Tensor value = resolve(part);
    part.tensor.reset();  // held once: what is summed over ranks next is then summed in place
    if (value.defined()) sum = sum.defined() ? at::add(sum, value) : std::move(value);
  }
  return sum;
}

// A pass that is dropped updates the buffers; when it runs again, it works on what they were before. An evaluation updates none.
std::vector<at::Tensor> SegmentedStage::called(Part& part, ForwardFlow& flow, std::vector<at::Tensor> values) {
  const bool divided = part.range.divided || graph_.degrees.sequence_parallel;
  CallContext context = context_of(flow.context, divided, groups_.member(Among::Tensor));
  context.context_member = groups_.member(Among::Context);
  if (context.evaluates) return part.stage->evaluate(values, context);
  if (flow.recorded)
    return part.stage->forward(flow.microbatch, std::move(values), context, false, std::move(flow.before[&part]));
  dropped_.at(flow.microbatch).before[&part] = part.stage->written_buffers();
  std::vector<at::Tensor> made = part.stage->forward(flow.microbatch, std::move(values), context);
  part.stage->forget(flow.microbatch);
  return made;
}

void SegmentedStage::run_segment(Part& part, ForwardFlow& flow) {
  std::vector<at::Tensor> values;
  for (const int tensor : part.stage->inputs()) values.push_back(take_value(flow, part, tensor));
  std::vector<at::Tensor> made = called(part, flow, std::move(values));
  for (std::size_t i = 0; i < made.size(); ++i) flow.values[part.stage->outputs()[i]].tensor = std::move(made[i]);
}

void SegmentedStage::run_collective(Part& part, ForwardFlow& flow) {
  const Operator& op = operator_of(part);
  const OperatorRole role = role_of(part);
  if (role == OperatorRole::Loss) return run_loss(part, flow);
  if (role == OperatorRole::Attention) return run_attention(part, flow);
  if (role == OperatorRole::ExpertTransfer) return run_expert_rows(part, flow);
  at::Tensor value = take_value(flow, part, tensor_argument(op, "self"));
  PassGroup* const group = group_of(part);
  Value& made = flow.values[op.outputs[0]];
  if (role == OperatorRole::HeadExchange)
    made = exchanged(*group, value, grows_tokens(op));
  else if (op.forward_collective != CollectiveKind::None)
    made = {{}, group->post(op.forward_collective, std::move(value), dimension_of(op)), group};
  else
    made.tensor = takes_own_part(op.forward_collective, op.backward_collective) ? group->own_part(value, dimension_of(op))
                                                                                : std::move(value);
}

void SegmentedStage::run_loss(Part& part, ForwardFlow& flow) {
  const Operator& op = operator_of(part);
  PassGroup* const group = group_of(part);
  VocabularyPart own;
  own.logits = take_value(flow, part, tensor_argument(op, "self"));
  own.labels = take_value(flow, part, tensor_argument(op, "target"));
  const std::int64_t vocabulary = integer_argument(op, "vocabulary"), width = own.logits.size(1);
  own.first = width * group->member();
  own.columns = std::clamp<std::int64_t>(vocabulary - own.first, 0, width);
  own.ignored = integer_argument(op, "ignore_index");
  const auto posted = group->post(CollectiveKind::AllReduce, vocabulary_statistics(own, group->member(), group->degree()));
  VocabularyLoss whole = vocabulary_loss(own, group->take(*posted));
  flow.values[op.outputs[0]].tensor = whole.loss;
  if (flow.recorded) part.losses[flow.microbatch] = {std::move(own), std::move(whole)};
}

// Selective recompute keeps the operands alone.
void SegmentedStage::run_attention(Part& part, ForwardFlow& flow) {
  const Operator& op = operator_of(part);
  std::array<at::Tensor, 3> operands;
  for (std::size_t i = 0; i < operands.size(); ++i)
    operands[i] = take_value(flow, part, tensor_argument(op, kAttentionOperands[i]));
  const auto& [query, key, value] = operands;
  AttentionForm form = *part.form;
  if (flow.context.evaluates) form.dropout = 0;
  form.seed = mixed_bits(context_of(flow.context, true, groups_.member(Among::Tensor)).seed ^
                         mixed_bits(static_cast<std::uint64_t>(flow.context.sample))) ^
              static_cast<std::uint64_t>(part.range.first_operator);
  ContextAttention made = attend_over_context(*group_of(part), op.forward_collective, form, query, key, value);
  flow.values[op.outputs[0]].tensor = made.output;
  if (!flow.recorded) return;
  if (part.listed) made = {form, query, key, value, {}, {}};
  part.attended[flow.microbatch] = std::move(made);
}

void SegmentedStage::return_attention(Part& part, BackwardFlow& flow, const at::Tensor& gradient) {
  const Operator& op = operator_of(part);
  OperandGradients found = context_attention_backward(*group_of(part), op.forward_collective,
                                                      std::move(part.attended.extract(flow.microbatch).mapped()), gradient);
  std::size_t operand = 0;
  for (at::Tensor* one : {&found.query, &found.key, &found.value})
    flow.gradients[tensor_argument(op, kAttentionOperands[operand++])].push_back({std::move(*one)});
  if (!found.sinks.defined() || !part.form->sinks.requires_grad()) return;
  part.sinks[flow.microbatch] = {{torch::autograd::impl::gradient_edge(part.form->sinks)}, {std::move(found.sinks)}};
  if (flow.kind == ActionKind::B) return_sinks(part, flow.microbatch);
}

void SegmentedStage::return_sinks(Part& part, int microbatch) {
  if (auto work = part.sinks.extract(microbatch); !work.empty()) weight_gradients(std::move(work.mapped()));
}

// Without a backward to come the way back is the counts' last use, else it is the backward of the way there.
void SegmentedStage::run_expert_rows(Part& part, ForwardFlow& flow) {
  const Operator& op = operator_of(part);
  PassGroup* const group = group_of(part);
  const bool there = leads_to_experts(op);
  const std::pair key(flow.microbatch, counts_of(op));
  const at::Tensor rows = take_value(flow, part, tensor_argument(op, "rows"));
  RowCounts& counts = counts_of_rows_[key];
  if (there)
    flow.values[op.outputs[1]].tensor =
        agree_on_rows(op, take_value(flow, part, tensor_argument(op, "given")), graph_.routing.experts, *group, counts);
  flow.values[op.outputs[0]] = {{}, post_rows(op.forward_collective, there, rows, counts, *group), group};
  if (!there && !flow.recorded) counts_of_rows_.erase(key);
}

void SegmentedStage::return_expert_rows(Part& part, BackwardFlow& flow, const at::Tensor& gradient) {
  const Operator& op = operator_of(part);
  PassGroup* const group = group_of(part);
  const bool there = leads_to_experts(op);
  const auto counts = counts_of_rows_.find({flow.microbatch, counts_of(op)});
  PANPIPE_CHECK(counts != counts_of_rows_.end(), "rows of experts whose way is not known");
  flow.gradients[tensor_argument(op, "rows")].push_back(
      {{}, post_rows(op.backward_collective, !there, gradient, counts->second, *group), group});
  if (there) counts_of_rows_.erase(counts);
}

Steps SegmentedStage::forward_steps(std::shared_ptr<ForwardFlow> flow, Take inputs, Give outputs) {
  Steps steps;
  for (const auto& [first, end] : stretches(false)) {
    steps.emplace_back([this, flow, first = first, end = end, take = first == 0 ? std::exchange(inputs, {}) : Take(),
                        give = end == parts_.size() ? std::exchange(outputs, {}) : Give()] {
      if (take) {
        std::vector<at::Tensor> values = take();
        for (std::size_t i = 0; i < inputs_.size(); ++i) flow->values[inputs_[i]].tensor = std::move(values[i]);
      }
      {
        std::optional<at::NoGradGuard> no_graph;
        if (!flow->recorded) no_graph.emplace();
        for (std::size_t p = first; p < end; ++p) {
          open(parts_[p], false);
          parts_[p].range.communicates ? run_collective(parts_[p], *flow) : run_segment(parts_[p], *flow);
          close(parts_[p], false, false);
        }
      }
      if (!give) return;
      std::vector<at::Tensor> values;
      for (const int tensor : outputs_) values.push_back(resolve(flow->values.at(tensor)));
      flow->values.clear();
      give(std::move(values));
    });
  }
  return steps;
}

// In the order in which a stage that is one part wants its inputs.
std::vector<at::Tensor> SegmentedStage::of_only_part(std::vector<at::Tensor> values) const {
  std::vector<at::Tensor> ordered;
  for (const int tensor : parts_[0].stage->inputs())
    ordered.push_back(std::move(values[std::lower_bound(inputs_.begin(), inputs_.end(), tensor) - inputs_.begin()]));
  return ordered;
}

Steps SegmentedStage::evaluate(int microbatch, const CallContext& context, Take inputs, Give outputs) {
  if (parts_.size() == 1)
    return {[this, context, inputs = std::move(inputs), outputs = std::move(outputs)] {
      std::vector<at::Tensor> values = of_only_part(inputs());
      open(parts_[0], false);
      values = parts_[0].stage->evaluate(values, context);
      close(parts_[0], false, false);
      outputs(std::move(values));
    }};
  auto flow = std::make_shared<ForwardFlow>(ForwardFlow{microbatch, context, false});
  return forward_steps(std::move(flow), std::move(inputs), std::move(outputs));
}

Steps SegmentedStage::forward(int microbatch, const CallContext& context, bool drop, Take inputs, Give outputs) {
  if (parts_.size() == 1) {  // keeps what recompute needs itself, copies of written buffers too
    return {[this, microbatch, context, drop, inputs = std::move(inputs), outputs = std::move(outputs)] {
      std::vector<at::Tensor> values = of_only_part(inputs());
      open(parts_[0], false);
      values = parts_[0].stage->forward(microbatch, std::move(values), context, drop);
      close(parts_[0], false, false);
      outputs(std::move(values));
    }};
  }
  auto flow = std::make_shared<ForwardFlow>(ForwardFlow{microbatch, context, !drop});
  if (!drop) return forward_steps(std::move(flow), std::move(inputs), std::move(outputs));
  return forward_steps(
      std::move(flow),
      [this, microbatch, context, inputs = std::move(inputs)] {
        std::vector<at::Tensor> values = inputs();
        dropped_[microbatch] = {context, values};
        return values;
      },
      std::move(outputs));
}

void SegmentedStage::forget(int microbatch) {
  dropped_.erase(microbatch);
  for (const Part& part : parts_)
    if (part.stage) part.stage->forget(microbatch);
}

Steps SegmentedStage::recompute(int microbatch) {
  if (parts_.size() == 1)
    return {[this, microbatch] {
      open(parts_[0], false);
      parts_[0].stage->recompute(microbatch);
      close(parts_[0], false, false);
    }};
  const auto found = dropped_.find(microbatch);
  PANPIPE_CHECK(found != dropped_.end(), fmt::format("microbatch {} was not dropped", microbatch));
  Dropped dropped = std::move(found->second);
  dropped_.erase(found);
  auto flow = std::make_shared<ForwardFlow>(ForwardFlow{microbatch, dropped.context, true, std::move(dropped.before)});
  return forward_steps(
      std::move(flow), [inputs = std::move(dropped.inputs)] { return inputs; }, [](const std::vector<at::Tensor>&) {});
}

void SegmentedStage::return_segment(Part& part, BackwardFlow& flow, bool apart) {
  std::vector<at::Tensor> gradients, found;
  for (const int tensor : part.stage->outputs()) gradients.push_back(take_gradient(flow, tensor));
  if (flow.kind == ActionKind::B && !apart) {
    found = part.stage->backward(flow.microbatch, gradients);
  } else {
    found = part.stage->input_gradient(flow.microbatch, gradients);
    if (flow.kind == ActionKind::B) flow.weights.push_back(part.stage.get());
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].defined()) flow.gradients[part.stage->inputs()[i]].push_back({std::move(found[i])});
}

void SegmentedStage::return_collective(Part& part, BackwardFlow& flow) {
  const Operator& op = operator_of(part);
  at::Tensor gradient = take_gradient(flow, op.outputs[0]);
  if (!gradient.defined()) return;
  const OperatorRole role = role_of(part);
  if (role == OperatorRole::Attention) return return_attention(part, flow, gradient);
  if (role == OperatorRole::ExpertTransfer) return return_expert_rows(part, flow, gradient);
  PassGroup* const group = group_of(part);
  Value& back = flow.gradients[tensor_argument(op, "self")].emplace_back();
  if (role == OperatorRole::Loss) {
    const auto [own, whole] = std::move(part.losses.extract(flow.microbatch).mapped());
    back.tensor = vocabulary_gradient(own, whole, gradient);
  } else if (role == OperatorRole::HeadExchange) {
    back = exchanged(*group, gradient, !grows_tokens(op));
  } else if (op.backward_collective != CollectiveKind::None) {
    back = {{}, group->post(op.backward_collective, std::move(gradient), dimension_of(op)), group};
  } else {
    back.tensor = takes_own_part(op.backward_collective, op.forward_collective) ? group->own_part(gradient, dimension_of(op))
                                                                                : std::move(gradient);
  }
}

Steps SegmentedStage::backward(ActionKind kind, int microbatch, Take output_gradients, Give input_gradients) {
  Steps steps;
  if (dropped_.count(microbatch) > 0) {
    steps = recompute(microbatch);
    auto arrived = std::make_shared<std::vector<at::Tensor>>();
    steps.front() = [arrived, take = std::move(output_gradients), first = std::move(steps.front())] {
      *arrived = take();
      first();
    };
    output_gradients = [arrived] { return std::move(*arrived); };
  }
  auto flow = std::make_shared<BackwardFlow>(BackwardFlow{microbatch, kind, {}, {}});
  for (const auto& [first, end] : stretches(true)) {
    steps.emplace_back([this, flow, first = first, end = end, take = first == 0 ? std::exchange(output_gradients, {}) : Take(),
                        give = end == parts_.size() ? std::exchange(input_gradients, {}) : Give()] {
      if (take) {
        std::vector<at::Tensor> values = take();
        for (std::size_t i = 0; i < outputs_.size(); ++i)
          if (values[i].defined()) flow->gradients[outputs_[i]].push_back({std::move(values[i])});
      }
      const bool posting = posts(parts_[parts_.size() - end], true);
      const bool whole = flow->kind == ActionKind::B;
      const auto close_back = [&](std::size_t p) { close(parts_[parts_.size() - 1 - p], true, whole); };
      for (std::size_t p = first; p < end; ++p) {
        Part& part = parts_[parts_.size() - 1 - p];
        open(part, true);
        part.range.communicates ? return_collective(part, *flow) : return_segment(part, *flow, posting);
        if (!posting) close_back(p);
      }
      for (Stage* stage : std::exchange(flow->weights, {})) stage->weight_gradient(flow->microbatch);
      for (std::size_t p = first; posting && p < end; ++p) close_back(p);
      if (!give) return;
      std::vector<at::Tensor> values;
      for (const int tensor : inputs_) values.push_back(take_gradient(*flow, tensor));
      give(std::move(values));
    });
  }
  return steps;
}

void SegmentedStage::clear() {
  for (Part& part : parts_) {
    if (part.stage) part.stage->clear();
    part.losses.clear();
    part.attended.clear();
    part.sinks.clear();
  }
  dropped_.clear();
  counts_of_rows_.clear();
}

Steps SegmentedStage::weight_gradient(int microbatch) {
  Steps steps;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    const bool sinks = part->form && part->form->sinks.defined();
    if (!part->stage && !sinks && !part->first && !part->last) continue;
    steps.emplace_back([this, part = &*part, microbatch] {
      open(*part, true);
      if (part->stage) part->stage->weight_gradient(microbatch);
      return_sinks(*part, microbatch);
      close(*part, true, true);
    });
  }
  return steps;
}

}  // namespace panpipe::exec
