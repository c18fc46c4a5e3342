#include "exec/engine/slices/attention_partner.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/workload/attention_operator.hpp"
#include "exec/engine/context/block_attention.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/stage/autograd_node.hpp"

namespace panpipe::exec {
namespace {

constexpr std::int64_t kTokens = 2, kFeatures = 3;
constexpr int kMessages = 6;  // tensors of one attention in one direction, at most

int attentions_of(RankSite& site, int stage) {
  const StageRange& range = site.layout.stages[panpipe::at(stage)];
  const auto begin = site.graph.operators.begin();
  return static_cast<int>(std::count_if(begin + range.first_operator, begin + range.end_operator, is_attention));
}

at::Tensor tokens_of(const at::Tensor& tensor, std::int64_t first, std::int64_t end) {
  return tensor.narrow(kTokens, first, end - first);
}

// The messages of one attention of a pair; none without a partner.
class Line {
 public:
  Line(RankSite& site, std::optional<AttentionPartner> partner, int number, bool backward, const std::string& action)
      : site_(site), partner_(std::move(partner)), backward_(backward), action_(action) {
    if (!partner_) return;
    const std::vector<Operator>& operators = site.graph.operators;
    const auto first = operators.begin() + site.layout.stages[panpipe::at(partner_->giving_stage)].first_operator;
    const int before = static_cast<int>(std::count_if(operators.begin(), first, is_attention));  // of the whole model
    first_message_ = static_cast<int>(site.layout.messages.size()) + (before + number) * kMessages;
  }
  // First slices of the sequence that the partner attends to for this rank, and that this rank attends to for the partner.
  int given() const { return partner_ ? std::max(0, -partner_->slices) : 0; }
  int taken() const { return partner_ ? std::max(0, partner_->slices) : 0; }
  void send(const std::vector<at::Tensor>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      sent_.push_back(site_.transport.send(values[i].contiguous(), partner_->rank, tag(i)));
  }
  // Tensors like these.
  std::vector<at::Tensor> receive(const std::vector<at::Tensor>& like) {
    std::vector<PendingPtr> posted;
    for (std::size_t i = 0; i < like.size(); ++i)
      posted.push_back(
          site_.transport.receive({like[i].sizes().vec(), like[i].scalar_type(), like[i].device()}, partner_->rank, tag(i)));
    wait_for(posted, "waiting for attention shared with rank {}");
    std::vector<at::Tensor> values;
    for (const PendingPtr& pending : posted) {
      values.push_back(std::move(pending->value));
      charge_to_this_thread(values.back());
    }
    return values;
  }
  // The tokens of the queries that are sent.
  Tokens queries(std::int64_t length) const { return {partner_->giving_slice % site_.layout.splits * length, length}; }
  void end() {
    if (partner_) wait_for(sent_, "waiting until rank {} takes its attention");
  }

 private:
  std::uint32_t tag(std::size_t tensor) const {
    return site_.layout.tag(first_message_ + static_cast<int>(tensor), 0, partner_->giving_slice, backward_);
  }
  void wait_for(const std::vector<PendingPtr>& pending, const char* what) {
    SpanLog::Moment begin = site_.spans.now();
    for (const PendingPtr& one : pending)
      one->wait(site_.deadline, fmt::format("{}, {}", action_, fmt::format(fmt::runtime(what), partner_->rank)));
    site_.waits.emplace_back(std::move(begin), site_.spans.now());
  }

  RankSite& site_;
  std::optional<AttentionPartner> partner_;
  bool backward_;
  const std::string& action_;
  int first_message_ = 0;
  std::vector<PendingPtr> sent_;
};

// One attention of a pass: its operands, the place of its queries, and its result.
struct Shared {
  AttentionForm form;
  at::Tensor query, keys, values;
  std::int64_t first = 0;  // token of the sequence
  at::Tensor output, log_sum;

  std::int64_t length() const { return query.size(kTokens); }
  Tokens queries() const { return {first, length()}; }
  // Keys and values of the sequence's first slices; of another pass, by their shapes: this one may have fewer.
  std::vector<at::Tensor> early(int slices) const {
    return {tokens_of(keys, 0, slices * length()), tokens_of(values, 0, slices * length())};
  }
  std::vector<at::Tensor> like_early(int slices) const {
    const auto repeated = [&](const at::Tensor& all) { return tokens_of(all, 0, 1).expand({-1, -1, slices * length(), -1}); };
    return {repeated(keys), repeated(values)};
  }
};

void attend_to(const Shared& call, const at::Tensor& query, Tokens queries, std::int64_t first, std::int64_t end,
               const at::Tensor& keys, const at::Tensor& values, Attended& so_far) {
  attend(call.form, query, queries, tokens_of(keys, first, end), tokens_of(values, first, end), {first, end - first}, so_far);
}

// Adds the other part of the same rows.
void merge(Attended& own, const Attended& other) {
  const at::Tensor both = at::logaddexp(own.log_sum, other.log_sum);
  own.output.mul_((own.log_sum - both).exp().unsqueeze(kFeatures))
      .add_(other.output * (other.log_sum - both).exp().unsqueeze(kFeatures));
  own.log_sum.copy_(both);
}

// Queries of another rank lie behind all keys that come with them, which no mask hides.
AttentionForm without_mask(AttentionForm form) {
  form.causal = false;
  return form;
}

void forward(Shared& call, Line& line) {
  Attended attended = attended_to_nothing(call.form, call.query, call.values.size(kFeatures));
  const std::int64_t all = call.keys.size(kTokens), given = line.given() * call.length();
  if (given > 0) {
    std::vector<at::Tensor> sent = call.early(line.given());
    sent.insert(sent.begin(), call.query);
    line.send(sent);
  }
  attend_to(call, call.query, call.queries(), given, all, call.keys, call.values, attended);
  if (given > 0) {
    const std::vector<at::Tensor> arrived = line.receive({attended.output, attended.log_sum});
    merge(attended, {arrived[0], arrived[1]});
  }
  call.output = attended.output.to(call.query.scalar_type());
  call.log_sum = attended.log_sum;
  if (line.taken() == 0) return;
  const std::vector<at::Tensor> early = call.like_early(line.taken());
  const std::vector<at::Tensor> arrived = line.receive({call.query, early[0], early[1]});
  Attended other = attended_to_nothing(call.form, arrived[0], call.values.size(kFeatures));
  attend(without_mask(call.form), arrived[0], line.queries(call.length()), arrived[1], arrived[2], {0, early[0].size(kTokens)},
         other);
  line.send({other.output, other.log_sum});
}

OperandGradients backward(const Shared& call, Line& line, const at::Tensor& gradient) {
  const at::Tensor weight = weight_of_rows(gradient, call.output);
  OperandGradients sums{sums_like(call.query), sums_like(call.keys), sums_like(call.values)};
  const std::int64_t all = call.keys.size(kTokens), given = line.given() * call.length();
  if (given > 0) {
    const std::vector<at::Tensor> early = call.early(line.given());
    line.send({call.query, early[0], early[1], call.log_sum, gradient, weight});
  }
  attend_backward(call.form, call.query, call.queries(), tokens_of(call.keys, given, all), tokens_of(call.values, given, all),
                  {given, all - given}, call.log_sum, gradient, weight,
                  {sums.query, tokens_of(sums.key, given, all), tokens_of(sums.value, given, all)});
  if (given > 0) {
    const at::Tensor key = tokens_of(sums.key, 0, given), value = tokens_of(sums.value, 0, given);
    const std::vector<at::Tensor> arrived = line.receive({sums.query, key, value});
    sums.query.add_(arrived[0]);
    key.copy_(arrived[1]);
    value.copy_(arrived[2]);
  }
  if (line.taken() == 0) return sums;
  const std::vector<at::Tensor> early = call.like_early(line.taken());
  const std::vector<at::Tensor> arrived = line.receive({call.query, early[0], early[1], call.log_sum, gradient, weight});
  const OperandGradients others{sums_like(arrived[0]), sums_like(arrived[1]), sums_like(arrived[2])};
  attend_backward(without_mask(call.form), arrived[0], line.queries(call.length()), arrived[1], arrived[2],
                  {0, early[0].size(kTokens)}, arrived[3], arrived[4], arrived[5], others);
  line.send({others.query, others.key, others.value});
  return sums;
}

struct SharedAttentionBackward : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& arrived) override {
    const at::NoGradGuard no_graph;
    const at::Tensor gradient = arrived[0].defined() ? arrived[0].contiguous() : at::zeros_like(call.output);
    Line line(*site, partner, number, true, action);
    const OperandGradients sums = backward(call, line, gradient);
    line.end();
    const at::ScalarType type = call.query.scalar_type();
    return {sums.query.to(type), sums.key.to(type), sums.value.to(type)};
  }
  void release_variables() override { call = {}; }

  RankSite* site = nullptr;
  std::optional<AttentionPartner> partner;
  int number = 0;
  std::string action;
  Shared call;
};

}  // namespace

void check_shares_attention(const OperatorGraph& graph) {
  const Operator* first = nullptr;
  for (const Operator& op : graph.operators) {
    if (!is_attention(op)) continue;
    const AttentionSettings settings = attention_settings(op);
    const auto refuse = [&](const std::string& why) {
      throw InputError(fmt::format("the executor does not share the attention of '{}' between ranks: {}", op.module, why),
                       "set exchange: off in the schedule");
    };
    if (settings.sinks >= 0) refuse("it has sinks");
    if (settings.dropout > 0) refuse("it has dropout");
    if (first == nullptr) first = &op;
    for (const char* operand : {"query", "key", "value"})
      if (graph.tensors[panpipe::at(tensor_argument(op, operand))].shape !=
          graph.tensors[panpipe::at(tensor_argument(*first, operand))].shape)
        refuse(fmt::format("its shape is not that of '{}'", first->module));
  }
}

AttentionPartners::AttentionPartners(RankSite& site, int stage, std::optional<AttentionPartner> forward,
                                     std::optional<AttentionPartner> backward, std::string action)
    : site_(site), stage_(stage), forward_(std::move(forward)), backward_(std::move(backward)), action_(std::move(action)) {}

at::Tensor AttentionPartners::attend(int op, int slice, const OperatorRow& row, const torch::jit::Stack& stack,
                                     const at::Tensor& keys, const at::Tensor& values) {
  at::Tensor query = stack[panpipe::at(row.position("query"))].toTensor();
  // As AttendedSequence::attend: a view of a fused product would keep the keys and values alive a second time.
  if (query.storage().is_alias_of(stack[panpipe::at(row.position("key"))].toTensor().storage()))
    query = query.clone(at::MemoryFormat::Contiguous);
  const std::vector<Operator>& operators = site_.graph.operators;
  const auto begin = operators.begin() + site_.layout.stages[panpipe::at(stage_)].first_operator;
  const int number = static_cast<int>(std::count_if(begin, operators.begin() + op, is_attention));
  const auto partner = [&](const std::optional<AttentionPartner>& side) {
    return side && number < side->shared ? side : std::nullopt;
  };
  const auto by_head = [&](int) { return stack[panpipe::at(row.position("slopes"))].toTensor(); };  // sinks are refused
  Shared call{attention_form(operators[panpipe::at(op)], by_head),
              query.detach(),
              keys.detach(),
              values.detach(),
              slice * query.size(kTokens),
              {},
              {}};
  {
    const at::NoGradGuard no_graph;
    Line line(site_, attended_.insert(op).second ? partner(forward_) : std::nullopt, number, false, action_);
    forward(call, line);
    line.end();
  }
  at::Tensor result = call.output.detach();
  if (!at::GradMode::is_enabled() || !(query.requires_grad() || keys.requires_grad() || values.requires_grad())) return result;
  const auto node = make_node<SharedAttentionBackward>();
  node->site = &site_;
  node->partner = partner(backward_);
  node->number = number;
  node->action = action_;
  node->call = std::move(call);
  node->set_next_edges(torch::autograd::collect_next_edges(query, keys, values));
  torch::autograd::set_history(result, node);
  return result;
}

std::shared_ptr<AttentionPartners> partners_of(const SliceExchange& exchange, const Action& forward, RankSite& site) {
  const auto partner = [&](ActionKind kind) -> std::optional<AttentionPartner> {
    Action pass = forward;
    pass.kind = kind;
    const SharedAttention* shared = exchange.of(pass);
    if (shared == nullptr) return std::nullopt;
    const Action& giving = shared->slices < 0 ? pass : shared->pass;
    MeshPlace place = site.place;
    place.position = shared->rank;
    return AttentionPartner{world_rank(site.plan, place), shared->slices,
                            std::min(attentions_of(site, pass.stage), attentions_of(site, shared->pass.stage)), giving.stage,
                            site.layout.slice_index(giving)};
  };
  std::optional<AttentionPartner> forwards = partner(ActionKind::F), backwards = partner(ActionKind::B);
  if (!forwards && !backwards) return nullptr;
  return std::make_shared<AttentionPartners>(site, forward.stage, std::move(forwards), std::move(backwards), to_text(forward));
}

}  // namespace panpipe::exec
