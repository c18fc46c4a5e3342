#include "exec/engine/vocabulary_parts.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/rank_groups.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/stage/vocabulary_loss.hpp"
#include "exec/engine/stage_messages.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {
namespace {

bool is_of_backward(VocabularyExchange kind) {
  return kind == VocabularyExchange::HiddenGradient || kind == VocabularyExchange::EmbeddingGradient;
}
bool goes_to_all(VocabularyExchange kind) {
  return kind == VocabularyExchange::Hidden || kind == VocabularyExchange::EmbeddingGradient;
}

}  // namespace

void cut_vocabulary(OperatorGraph& graph, const Plan& plan, StageLayout& layout) {
  const VocabularyTensors tensors = vocabulary_tensors(graph);
  if (tensors.bias >= 0)
    throw InputError("the executor cuts no head with a bias over the stages", "leave the option vocabulary out of the schedule");
  const std::int64_t rows = tensors.padded / plan.pipeline;
  for (auto op = graph.operators.rbegin(); op->unit == graph.operators.back().unit; ++op)
    for (const int made : op->outputs)  // labels are below the words, not below their padding
      if (Shape& shape = graph.tensors[made].shape; !shape.empty() && shape.back() == tensors.padded)
        shape.back() = tensors.words;
  for (const int tensor : {tensors.embedding, tensors.head}) {
    graph.tensors[tensor].shape[0] = rows;
    graph.tensors[tensor].shard_dimension = 0;
    layout.vocabulary[root_of(graph, tensor)] = plan.pipeline;
  }
  for (int rank = 0; rank < plan.pipeline; ++rank)
    for (const auto& [root, ranks] : layout.vocabulary) layout.stages[panpipe::at(rank)].parameters.push_back(root);
}

at::Tensor rows_of_rank(const Tensor& parameter, const at::Tensor& whole, int rank, int ranks) {
  Degrees degrees;  // as tensor-parallel ranks would cut it
  degrees.tensor = ranks;
  return shard_of(parameter, whole, rank, degrees);
}

VocabularyParts::VocabularyParts(RankSite& site, const ParameterStore& parameters)
    : site_(site),
      tensors_(vocabulary_tensors(site.graph)),
      first_rank_(site.plan.schedule.stage_to_rank[panpipe::at(site.plan.schedule.chains.front().front())]),
      last_rank_(site.plan.schedule.stage_to_rank[panpipe::at(site.plan.schedule.chains.front().back())]),
      order_(vocabulary_order(site.plan.schedule)) {
  const auto pipeline_of = [&](int replica) {
    std::vector<int> ranks;
    for (int position = 0; position < site.plan.pipeline; ++position)
      ranks.push_back(world_rank(site.plan, {position, replica, 0}));
    return ranks;
  };
  std::set<std::vector<int>> wanted;
  for (int replica = 0; replica < site.plan.replicas(); ++replica) wanted.insert(pipeline_of(replica));
  group_ = make_groups(site.transport, wanted).at(pipeline_of(site.place.replica));
  embedding_ = parameters.tensor(tensors_.embedding);
  head_ = parameters.tensor(tensors_.head);
  first_row_ = site.place.position * head_.size(0);
  rows_ = std::clamp<std::int64_t>(tensors_.words - first_row_, 0, head_.size(0));
  const auto spec_of = [&](int tensor) {
    return TensorSpec{site.graph.tensors[tensor].shape, scalar_type(site.graph.tensors[tensor].dtype), site.device};
  };
  hidden_ = spec_of(tensors_.hidden);
  embedded_ = spec_of(tensors_.embedded);
}

void VocabularyParts::begin_step(bool evaluates) {
  next_ = 0;
  evaluates_ = evaluates;
  heads_.clear();
  losses_.clear();
  for (auto& exchanges : exchanges_) exchanges.clear();
}

VocabularyParts::Exchange& VocabularyParts::exchange(VocabularyExchange kind, int microbatch) {
  return exchanges_[static_cast<std::size_t>(kind)][microbatch];
}

void VocabularyParts::produce(VocabularyExchange kind, int microbatch, at::Tensor value) {
  Exchange& own = exchange(kind, microbatch);
  own.value = std::move(value);
  own.produced = true;
}

void VocabularyParts::post(const VocabularyTurn& turn) {
  Exchange& own = exchange(turn.exchange, turn.microbatch);
  own.started = site_.spans.now();
  if (goes_to_all(turn.exchange)) {
    const bool hidden = turn.exchange == VocabularyExchange::Hidden;
    const TensorSpec& spec = hidden ? hidden_ : embedded_;
    if (!own.produced) own.value = at::empty(spec.shape, at::TensorOptions(spec.dtype).device(spec.device));
    const int root = world_rank(site_.plan, {hidden ? last_rank_ : first_rank_, site_.place.replica, 0});
    own.pending = site_.transport.broadcast(own.value, root, group_);
  } else {
    own.pending = site_.transport.all_reduce(own.value, group_);
  }
  if (!reader_of(turn.exchange).is_on(site_.plan.schedule, site_.place.position)) for_others_.push_back(turn);
}

// The exchanges whose turn it is and whose part is there. The gradient that follows the statistics waits for them: below
// `blocking_below`, where no rank waits for this one (vocabulary_order), else only if they are there.
void VocabularyParts::proceed(int blocking_below) {
  for (; next_ < order_.turns.size(); ++next_) {
    const VocabularyTurn& turn = order_.turns[next_];
    if (evaluates_ && is_of_backward(turn.exchange)) continue;
    Exchange& own = exchange(turn.exchange, turn.microbatch);
    if (turn.exchange == VocabularyExchange::HiddenGradient && site_.plan.schedule.vocabulary_barriers == 1) {
      const Exchange& statistics = exchange(VocabularyExchange::Statistics, turn.microbatch);
      const bool there = statistics.done || (statistics.pending && statistics.pending->done());
      if (!there && (!statistics.pending || static_cast<int>(next_) >= blocking_below)) return;
      Head& head = heads_.at(turn.microbatch);
      weigh(turn.microbatch, head);
      const at::NoGradGuard no_graph;
      produce(turn.exchange, turn.microbatch, gradient_of_part(head, head.product, head.label_rows));
      head.product = head.label_rows = at::Tensor();
    } else if (!own.produced && maker_of(turn.exchange, site_.plan.schedule.vocabulary_barriers)
                                    .is_on(site_.plan.schedule, site_.place.position)) {
      return;
    }
    post(turn);
  }
}

void VocabularyParts::before_action(std::size_t index, bool /*evaluates*/) {
  proceed(order_.before[static_cast<std::size_t>(site_.place.position)][index]);
}
void VocabularyParts::after_action(std::size_t /*index*/, bool /*evaluates*/) {
  proceed(0);
  std::erase_if(for_others_, [this](const VocabularyTurn& turn) {
    if (!exchange(turn.exchange, turn.microbatch).pending->done()) return false;
    take(turn.exchange, turn.microbatch);
    return true;
  });
}
void VocabularyParts::finish() {
  proceed(static_cast<int>(order_.turns.size()));
  for (const VocabularyTurn& turn : std::exchange(for_others_, {})) take(turn.exchange, turn.microbatch);
  if (!evaluates_) return;
  const at::NoGradGuard no_graph;
  for (const auto& [microbatch, head] : heads_)
    if (site_.place.position == last_rank_) whole_loss(microbatch, head);
  heads_.clear();
}

at::Tensor VocabularyParts::wait_for(VocabularyExchange kind, int microbatch) {
  Exchange& own = exchange(kind, microbatch);
  if (!own.done) {
    PANPIPE_CHECK(own.pending != nullptr, "an exchange of the vocabulary has not had its turn");
    SpanLog::Moment begin = site_.spans.now();
    own.pending->wait(site_.deadline, fmt::format("an exchange of the vocabulary for microbatch {}", microbatch));
    site_.waits.emplace_back(std::move(begin), site_.spans.now());
    own.done = true;
    const Action action{.kind = served_pass(kind), .stage = site_.place.position, .microbatch = microbatch};
    Span span = span_on(site_.transport.rank(), Lane::Vocabulary, action, static_cast<std::int64_t>(own.value.nbytes()),
                        goes_to_all(kind) ? "broadcast" : "all_reduce");
    site_.spans.note(std::move(span), own.started, {site_.spans.done(*own.pending)});
    own.pending = nullptr;  // it would keep the value
  }
  return own.value;
}

at::Tensor VocabularyParts::take(VocabularyExchange kind, int microbatch) {
  wait_for(kind, microbatch);
  return std::exchange(exchange(kind, microbatch).value, at::Tensor());
}

void VocabularyParts::embed(int microbatch, const at::Tensor& ids) {
  const at::NoGradGuard no_graph;
  const auto [local, here] = owned(part(ids));
  produce(VocabularyExchange::Embedding, microbatch,
          at::embedding(embedding_, local).masked_fill(here.logical_not().unsqueeze(-1), 0));
}

void VocabularyParts::head_forward(int microbatch, const at::Tensor& labels) {
  const at::NoGradGuard no_graph;
  Head& head = heads_[microbatch];
  head.labels = labels.reshape({-1});
  head.hidden = take(VocabularyExchange::Hidden, microbatch).reshape({-1, head_.size(1)});
  VocabularyPart own = part(head.labels);
  own.logits = at::linear(head.hidden, head_).to(at::kFloat);
  const at::Tensor table = vocabulary_statistics(own, site_.place.position, site_.plan.pipeline);
  const at::Tensor largest = table.select(0, site_.place.position).select(0, 0);
  head.exponentials = (own.logits - largest.unsqueeze(1)).exp_();
  if (rows_ < head.exponentials.size(1)) head.exponentials.narrow(1, rows_, head.exponentials.size(1) - rows_).zero_();
  head.statistics = largest.clone();
  produce(VocabularyExchange::Statistics, microbatch, table);
  if (evaluates_) {
    head.exponentials = head.hidden = at::Tensor();
    return;
  }
  if (site_.plan.schedule.vocabulary_barriers == 2) return;
  const auto [local, here] = owned(own);
  head.product = at::matmul(head.exponentials.to(head_.scalar_type()), head_).to(at::kFloat);
  head.label_rows = head_.index_select(0, local).to(at::kFloat).masked_fill_(here.logical_not().unsqueeze(1), 0);
}

// When the statistics of all ranks are there.
VocabularyLoss VocabularyParts::whole_loss(int microbatch, const Head& head) {
  VocabularyLoss whole = vocabulary_loss(part(head.labels), wait_for(VocabularyExchange::Statistics, microbatch));
  const Action action{.kind = ActionKind::S, .stage = site_.place.position, .microbatch = microbatch};
  if (site_.place.position == last_rank_) losses_.emplace_back(action, whole.loss);
  return whole;
}

void VocabularyParts::weigh(int microbatch, Head& head) {
  if (head.factor.defined()) return;
  const at::NoGradGuard no_graph;
  const VocabularyLoss whole = whole_loss(microbatch, head);
  head.factor = (head.statistics - whole.largest).exp() / whole.divisor;
  const at::Tensor counted = head.labels.ne(part(head.labels).ignored);
  const double scale = loss_scale_ / (static_cast<double>(site_.plan.schedule.microbatches) * site_.plan.data);
  head.weight = counted.to(at::kFloat).mul_(scale).div_(counted.sum().clamp_min(1));
}

// The result's gradient, from the products of exponentials and of labels with the rows.
at::Tensor VocabularyParts::gradient_of_part(const Head& head, const at::Tensor& of_softmax, const at::Tensor& of_labels) const {
  const at::Tensor sum = (of_softmax * head.factor.unsqueeze(1) - of_labels) * head.weight.unsqueeze(1);
  return sum.to(hidden_.dtype).reshape(hidden_.shape);
}

void VocabularyParts::head_backward(int microbatch) {
  auto found = heads_.extract(microbatch);
  PANPIPE_CHECK(!found.empty(), fmt::format("T of microbatch {} without its S", microbatch));
  Head head = std::move(found.mapped());
  at::Tensor of_rows;
  {
    const at::NoGradGuard no_graph;
    weigh(microbatch, head);
    const auto [local, here] = owned(part(head.labels));
    at::Tensor gradient = head.exponentials.mul_((head.factor * head.weight).unsqueeze(1));
    gradient.scatter_add_(1, local.unsqueeze(1), -(head.weight * here.to(at::kFloat)).unsqueeze(1));
    const at::Tensor narrow = gradient.to(head_.scalar_type());
    if (site_.plan.schedule.vocabulary_barriers == 2)
      produce(VocabularyExchange::HiddenGradient, microbatch, at::matmul(narrow, head_).to(hidden_.dtype).reshape(hidden_.shape));
    of_rows = at::matmul(narrow.t(), head.hidden);
  }
  head_.backward(of_rows);
}

void VocabularyParts::add_embedding_gradient(int microbatch, const at::Tensor& ids) {
  at::Tensor of_rows;
  {
    const at::NoGradGuard no_graph;
    const at::Tensor gradient = take(VocabularyExchange::EmbeddingGradient, microbatch);
    const auto [local, here] = owned(part(ids.reshape({-1})));
    const at::Tensor own = gradient.reshape({-1, embedding_.size(1)}).masked_fill(here.logical_not().unsqueeze(1), 0);
    of_rows = at::zeros_like(embedding_).index_add_(0, local, own);
  }
  embedding_.backward(of_rows);
}

int VocabularyParts::input_of(ActionKind kind) const {
  if (kind == ActionKind::T) return -1;
  return kind == ActionKind::S ? tensors_.labels : tensors_.ids;
}

void VocabularyParts::run(const Action& action, const at::Tensor& input, double loss_scale) {
  loss_scale_ = loss_scale;
  if (action.kind == ActionKind::E) return embed(action.microbatch, input);
  if (action.kind == ActionKind::S) return head_forward(action.microbatch, input);
  if (action.kind == ActionKind::T) return head_backward(action.microbatch);
  add_embedding_gradient(action.microbatch, input);
}

void VocabularyParts::take_into(std::vector<at::Tensor>& values, const Action& action, const std::vector<int>& tensors,
                                bool backward) {
  const std::vector<int>& chain = site_.plan.schedule.chains.front();
  if (action.stage != (backward ? chain.back() : chain.front())) return;
  values[position_in(tensors, backward ? tensors_.hidden : tensors_.embedded)] =
      take(backward ? VocabularyExchange::HiddenGradient : VocabularyExchange::Embedding, action.microbatch);
}

void VocabularyParts::give(const std::vector<at::Tensor>& values, const Action& action, const std::vector<int>& tensors,
                           bool backward) {
  const std::vector<int>& chain = site_.plan.schedule.chains.front();
  if (action.stage != (backward ? chain.front() : chain.back())) return;
  const at::Tensor& value = values[position_in(tensors, backward ? tensors_.embedded : tensors_.hidden)];
  produce(backward ? VocabularyExchange::EmbeddingGradient : VocabularyExchange::Hidden, action.microbatch,
          value.detach().contiguous().clone());
}

}  // namespace panpipe::exec
