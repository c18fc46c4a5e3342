#include "exec/engine/slices/attended_sequence.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/slices/attention_partner.hpp"
#include "exec/engine/stage/autograd_node.hpp"

namespace panpipe::exec {
namespace {

constexpr std::int64_t kTokens = 2;  // of (sample, head, token, feature)

at::Tensor tokens_before(const at::Tensor& tensor, std::int64_t end) { return tensor.narrow(kTokens, 0, end); }

// Added to the scores: row r of the slice sees the slices before it and its own tokens up to r.
at::Tensor mask_of(const at::Tensor& query, std::int64_t before) {
  const at::NoGradGuard no_graph;
  const std::int64_t rows = query.size(kTokens);
  return at::full({rows, before + rows}, -std::numeric_limits<double>::infinity(), query.options()).triu_(before + 1);
}

}  // namespace

struct AttendedSequence::Whole {
  at::Tensor values;     // of the whole sequence, filled up to the last slice that ran
  at::Tensor gradients;  // of the slices that have yet to run backwards, from those that have
};

struct AttendedSequence::AppendBackward : torch::autograd::Node {
  AppendBackward(std::shared_ptr<Whole> of, std::int64_t first, std::int64_t count)
      : whole(std::move(of)), before(first), length(count) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& arrived) override {
    const at::NoGradGuard no_graph;
    at::Tensor all = std::move(arrived[0]);
    if (at::Tensor left = std::exchange(whole->gradients, {}); left.defined()) all = all.defined() ? all.add(left) : left;
    PANPIPE_CHECK(!all.defined() || all.size(kTokens) == before + length, "slices run backwards from the last to the first");
    if (!all.defined()) return {at::Tensor()};
    // A copy, so that the part that is done does not live on.
    if (before > 0) whole->gradients = tokens_before(all, before).clone();
    return {all.narrow(kTokens, before, length)};
  }

  std::shared_ptr<Whole> whole;
  std::int64_t before, length;
};

at::Tensor AttendedSequence::append(std::shared_ptr<Whole>& whole, const at::Tensor& own, int slice) const {
  const std::int64_t length = own.size(kTokens), before = length * slice;
  at::Tensor all;
  {
    const at::NoGradGuard no_graph;
    if (!whole) {
      whole = std::make_shared<Whole>();
      std::vector<std::int64_t> shape = own.sizes().vec();
      shape[kTokens] *= splits_;
      whole->values = at::empty(shape, own.options());
    }
    whole->values.narrow(kTokens, before, length).copy_(own);
    // The same memory under a count of writes of its own: later slices write behind what autograd saves here.
    std::vector<std::int64_t> shape = own.sizes().vec();
    shape[kTokens] = before + length;
    all = at::empty({0}, own.options());
    all.set_(whole->values.storage(), 0, shape, whole->values.strides());
  }
  if (at::GradMode::is_enabled() && own.requires_grad()) {
    const auto node = make_node<AppendBackward>(whole, before, length);
    node->set_next_edges(torch::autograd::collect_next_edges(own));
    torch::autograd::set_history(all, node);
  }
  return all;
}

std::pair<at::Tensor, at::Tensor> AttendedSequence::append(int op, int slice, const at::Tensor& key, const at::Tensor& value) {
  Attention& attention = attentions_[op];
  return {append(attention.keys, key, slice), append(attention.values, value, slice)};
}

void AttendedSequence::attend(int op, int slice, const OperatorRow& row, torch::jit::Stack& stack) {
  const auto given = [&](std::string_view name) -> c10::IValue& { return stack[panpipe::at(row.position(name))]; };
  const at::Tensor query = given("query").toTensor(), key = given("key").toTensor();
  // A query that is a view of a fused product would keep the keys and values alive a second time.
  if (query.storage().is_alias_of(key.storage())) given("query") = query.clone(at::MemoryFormat::Contiguous);
  const auto [keys, values] = append(op, slice, key, given("value").toTensor());
  given("key") = keys;
  given("value") = values;
  if (slice == 0 || row.along == Along::AttendsLast) return;  // causal as it is
  PANPIPE_CHECK(row.along == Along::AttendsBehindMask, "an attention without a rule for slices");
  at::Tensor& mask = (*masks_)[slice];
  if (!mask.defined()) mask = mask_of(query, key.size(kTokens) * slice);
  given("attn_mask") = mask;
  given("is_causal") = false;
}

at::Tensor SequenceSlice::attend_with_partners(int op, const OperatorRow& row, const torch::jit::Stack& stack) const {
  const auto given = [&](std::string_view name) { return stack[panpipe::at(row.position(name))].toTensor(); };
  const auto [keys, values] = sequence->append(op, index, given("key"), given("value"));
  return partners->attend(op, index, row, stack, keys, values);
}

at::Tensor SequenceSlice::part(int graph_tensor, const at::Tensor& whole) const {
  const int dimension = (*cut)[graph_tensor];
  if (dimension < 0) return whole;
  const std::int64_t length = whole.size(dimension) / sequence->splits();
  return whole.narrow(dimension, length * index, length);
}

}  // namespace panpipe::exec
