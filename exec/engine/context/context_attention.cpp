// Attention of a rank's queries to the keys and values of the whole sequence, which are distributed over all context-parallel
// ranks. Blocks travel around a ring while the previous block is processed (Liu, Zaharia, Abbeel, arXiv 2310.01889), or are
// gathered. docs/models/context.md counts the same collectives.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <utility>

#include "exec/engine/context/block_attention.hpp"
#include "exec/engine/context/sequence_share.hpp"
#include "exec/engine/mixed_bits.hpp"
#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {
namespace {

constexpr std::int64_t kTokens = 2, kFeatures = 3;
constexpr int kNext = 1, kBefore = -1;  // ways round the ring

// The data for the backward. Keys and values are one rank's: in a ring those of the last block, where the backward begins; when
// gathered, the rank's own. Without an output (dropped by selective recompute) both are the rank's own.
struct ContextAttention {
  AttentionForm form;
  at::Tensor query, key, value;
  at::Tensor output, log_sum;
};

// The two chunks of a rank's tokens.
struct Chunks {
  Chunks(int rank, int degree, std::int64_t tokens) : length(tokens / 2) {
    for (std::size_t i = 0; i < 2; ++i) chunk[i] = {length * SequenceShare::chunks_of(rank, degree)[i], length};
  }
  at::Tensor of(const at::Tensor& tensor, std::size_t i) const {
    return tensor.narrow(kTokens, static_cast<std::int64_t>(i) * length, length);
  }
  std::int64_t length;
  std::array<Tokens, 2> chunk;
};

// Calls `use(query chunk, key chunk)` with the numbers of those of which a query sees a key.
template <class Use>
void for_each_visible(const AttentionForm& form, const Chunks& queries, const Chunks& keys, Use use) {
  for (std::size_t q = 0; q < 2; ++q)
    for (std::size_t k = 0; k < 2; ++k)
      if (any_visible(form, queries.chunk[q], keys.chunk[k])) use(q, k);
}

class Queries {
 public:
  Queries(const PassGroup& group, const AttentionForm& form, const at::Tensor& query)
      : form_(form), query_(query), degree_(group.degree()), own_(group.member(), degree_, query.size(kTokens)) {}

  void attend_to(const at::Tensor& key, const at::Tensor& value, int rank, Attended& so_far) const {
    const Chunks keys(rank, degree_, key.size(kTokens));
    for_each_visible(form_, own_, keys, [&](std::size_t q, std::size_t k) {
      Attended rows{own_.of(so_far.output, q), own_.of(so_far.log_sum, q)};
      attend(form_, own_.of(query_, q), own_.chunk[q], keys.of(key, k), keys.of(value, k), keys.chunk[k], rows);
    });
  }
  void back_from(const at::Tensor& key, const at::Tensor& value, int rank, const at::Tensor& log_sum, const at::Tensor& gradient,
                 const at::Tensor& weight, const OperandGradients& sums) const {
    const Chunks keys(rank, degree_, key.size(kTokens));
    for_each_visible(form_, own_, keys, [&](std::size_t q, std::size_t k) {
      attend_backward(form_, own_.of(query_, q), own_.chunk[q], keys.of(key, k), keys.of(value, k), keys.chunk[k],
                      own_.of(log_sum, q), own_.of(gradient, q), own_.of(weight, q),
                      {own_.of(sums.query, q), keys.of(sums.key, k), keys.of(sums.value, k)});
    });
  }

 private:
  const AttentionForm& form_;
  const at::Tensor& query_;
  int degree_;
  Chunks own_;
};

// Keys and values of all ranks, side by side.
std::pair<at::Tensor, at::Tensor> gathered(PassGroup& group, const at::Tensor& key, const at::Tensor& value) {
  const auto posted = group.post(CollectiveKind::AllGather, at::cat({key, value}, kFeatures), kTokens);
  const at::Tensor both = group.take(*posted);
  return {both.narrow(kFeatures, 0, key.size(kFeatures)), both.narrow(kFeatures, key.size(kFeatures), value.size(kFeatures))};
}

void go_round(PassGroup& group, const Queries& queries, ContextAttention& made, Attended& attended) {
  for (int step = 0; step < group.degree(); ++step) {
    const int from = (group.member() - step + group.degree()) % group.degree();
    PassGroup::PostedPtr posted;
    if (step + 1 < group.degree()) posted = group.pass_on({made.key, made.value}, kNext);
    queries.attend_to(made.key, made.value, from, attended);
    if (!posted) continue;
    std::vector<at::Tensor> arrived = group.take_all(*posted);
    made.key = std::move(arrived[0]);
    made.value = std::move(arrived[1]);
  }
}

// The other way round, from the block that came last to the rank's own. The gradients of a block follow it one step behind, and
// are whole when they meet their rank's own part.
OperandGradients go_back_round(PassGroup& group, const Queries& queries, ContextAttention& kept, const at::Tensor& gradient,
                               const at::Tensor& weight) {
  OperandGradients sums{sums_like(kept.query), {}, {}};
  const int degree = group.degree();
  for (int step = 0; step < degree; ++step) {
    const bool blocks = step + 1 < degree, gradients = step > 0;
    std::vector<at::Tensor> sent;
    if (blocks) sent = {kept.key, kept.value};
    if (gradients) {
      sent.push_back(sums.key.to(kept.key.scalar_type()));
      sent.push_back(sums.value.to(kept.value.scalar_type()));
    }
    const auto posted = group.pass_on(sent, kBefore);
    sums.key = sums_like(kept.key);
    sums.value = sums_like(kept.value);
    queries.back_from(kept.key, kept.value, (group.member() + 1 + step) % degree, kept.log_sum, gradient, weight, sums);
    const std::vector<at::Tensor> arrived = group.take_all(*posted);
    if (gradients) {
      sums.key.add_(arrived[arrived.size() - 2]);
      sums.value.add_(arrived.back());
    }
    if (!blocks) continue;
    kept.key = arrived[0];
    kept.value = arrived[1];
  }
  return sums;
}

OperandGradients scattered(PassGroup& group, const Queries& queries, const ContextAttention& kept, const at::Tensor& gradient,
                           const at::Tensor& weight) {
  const auto [keys, values] = gathered(group, kept.key, kept.value);
  OperandGradients sums{sums_like(kept.query), sums_like(keys), sums_like(values)};
  const std::int64_t tokens = kept.key.size(kTokens);
  for (int rank = 0; rank < group.degree(); ++rank) {
    const auto of_rank = [&](const at::Tensor& all) { return all.narrow(kTokens, rank * tokens, tokens); };
    queries.back_from(of_rank(keys), of_rank(values), rank, kept.log_sum, gradient, weight,
                      {sums.query, of_rank(sums.key), of_rank(sums.value)});
  }
  at::Tensor both = at::cat({sums.key, sums.value}, kFeatures).to(kept.key.scalar_type());
  const auto posted = group.post(CollectiveKind::ReduceScatter, std::move(both), kTokens);
  const at::Tensor own = group.take(*posted);
  sums.key = own.narrow(kFeatures, 0, keys.size(kFeatures));
  sums.value = own.narrow(kFeatures, keys.size(kFeatures), values.size(kFeatures));
  return sums;
}

// `kind`: SendReceive (ring) or AllGather. All ranks of the group call this and the function below together.
ContextAttention attend_over_context(PassGroup& group, CollectiveKind kind, const AttentionForm& form, const at::Tensor& query,
                                     const at::Tensor& key, const at::Tensor& value) {
  const at::NoGradGuard no_graph;
  ContextAttention made{form, query, key, value, {}, {}};
  const Queries queries(group, form, query);
  Attended attended = attended_to_nothing(form, query, value.size(kFeatures));
  if (kind == CollectiveKind::SendReceive) {
    go_round(group, queries, made, attended);
  } else {
    const auto [keys, values] = gathered(group, key, value);
    const std::int64_t tokens = key.size(kTokens);
    for (int rank = 0; rank < group.degree(); ++rank)
      queries.attend_to(keys.narrow(kTokens, rank * tokens, tokens), values.narrow(kTokens, rank * tokens, tokens), rank,
                        attended);
  }
  made.output = attended.output.to(query.scalar_type());
  made.log_sum = std::move(attended.log_sum);
  return made;
}

// Gradients of the rank's own query, key and value, and of the sinks from its own queries, in their element type.
OperandGradients context_attention_backward(PassGroup& group, CollectiveKind kind, ContextAttention kept,
                                            const at::Tensor& output_gradient) {
  const at::NoGradGuard no_graph;
  if (!kept.output.defined()) kept = attend_over_context(group, kind, kept.form, kept.query, kept.key, kept.value);
  const Queries queries(group, kept.form, kept.query);
  const at::ScalarType own_type = kept.query.scalar_type();
  const at::Tensor weight = weight_of_rows(output_gradient, kept.output);
  kept.output.reset();
  at::Tensor sinks;
  if (kept.form.sinks.defined()) sinks = sinks_gradient(kept.form, kept.log_sum, weight);
  OperandGradients sums = kind == CollectiveKind::SendReceive ? go_back_round(group, queries, kept, output_gradient, weight)
                                                              : scattered(group, queries, kept, output_gradient, weight);
  return {sums.query.to(own_type), sums.key.to(own_type), sums.value.to(own_type), std::move(sinks)};
}

class ContextAttentionOperator : public StageOperator {
 public:
  ContextAttentionOperator(const StageSite& site, const StagePart& part)
      : StageOperator(site, part),
        form_(attention_form(op(), [&](int tensor) { return site.parameters.tensor(tensor); })),
        listed_(std::any_of(site.range.listed.begin(), site.range.listed.end(),
                            [&](const RecomputedOperator& one) { return one.index == part.first_operator; })) {}

  void forward(ForwardFlow& flow) override {
    const at::Tensor query = take(flow, "query"), key = take(flow, "key"), value = take(flow, "value");
    AttentionForm form = form_;
    if (flow.context.evaluates) form.dropout = 0;
    form.seed = mixed_bits(seed_of(flow.context, true) ^ mixed_bits(static_cast<std::uint64_t>(flow.context.sample))) ^
                static_cast<std::uint64_t>(part_.first_operator);
    ContextAttention made = attend_over_context(group(), op().forward_collective, form, query, key, value);
    flow.values[op().outputs[0]].tensor = made.output;
    if (!flow.recorded) return;
    if (listed_ && !flow.context.again) made = {form, query, key, value, {}, {}};
    attended_[flow.microbatch] = std::move(made);
  }

  void backward(BackwardFlow& flow) override {
    const at::Tensor gradient = flow.take(op().outputs[0]);
    if (!gradient.defined()) return;
    OperandGradients found = context_attention_backward(group(), op().forward_collective,
                                                        std::move(attended_.extract(flow.microbatch).mapped()), gradient);
    flow.add(tensor_argument(op(), "query"), {std::move(found.query)});
    flow.add(tensor_argument(op(), "key"), {std::move(found.key)});
    flow.add(tensor_argument(op(), "value"), {std::move(found.value)});
    if (!has_weights() || !form_.sinks.requires_grad()) return;
    sinks_[flow.microbatch] = {{torch::autograd::impl::gradient_edge(form_.sinks)}, {std::move(found.sinks)}};
    if (flow.kind == ActionKind::B) weight_gradient(flow.microbatch);
  }

  bool has_weights() const override { return form_.sinks.defined(); }
  void weight_gradient(int microbatch) override {
    if (auto work = sinks_.extract(microbatch); !work.empty()) weight_gradients(std::move(work.mapped()));
  }
  void clear() override {
    attended_.clear();
    sinks_.clear();
  }

 private:
  AttentionForm form_;
  bool listed_;                                         // selective recompute keeps the operands alone
  std::unordered_map<int, ContextAttention> attended_;  // by microbatch
  std::unordered_map<int, WeightWork> sinks_;           // between I and W, by microbatch
};

}  // namespace

StageOperatorPtr make_context_attention(const StageSite& site, const StagePart& part) {
  return std::make_unique<ContextAttentionOperator>(site, part);
}

}  // namespace panpipe::exec
