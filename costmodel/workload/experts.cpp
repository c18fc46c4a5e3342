// Operators of a mixture of experts. ATen has none of them: the executor registers them, and count_work knows them.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

std::int64_t share_of(std::int64_t rows, double share) {
  return share == 1 ? rows : std::max<std::int64_t>(1, std::llround(std::ceil(static_cast<double>(rows) * share)));
}

}  // namespace

Routed GraphBuilder::route(int logits, int correction, const Experts& of) {
  graph_.routing = {of.count, of.per_token, of.groups, of.groups_per_token};
  const Shape chosen = {shape(logits)[0], of.per_token};
  const int weights = op("panpipe_nn::route", chosen, dtype(logits), TensorRef{logits}, optional(correction),
                         std::int64_t{of.per_token}, of.sigmoid, of.normalized, of.scale);
  return {weights, second_output("panpipe_nn::route", chosen)};
}

// A second result of the operator just written.
int GraphBuilder::second_output(std::string_view target, Shape shape) {
  const int numbers = make_activation(target, std::move(shape), DType::Int64);
  graph_.tensors.back().producer = static_cast<int>(graph_.operators.size()) - 1;
  graph_.tensors.back().requires_gradient = false;
  graph_.operators.back().outputs.push_back(numbers);
  return numbers;
}

int GraphBuilder::dispatch(int rows, int chosen, int per_token) {
  request_.expert_load.check(graph_.routing.experts);
  const std::int64_t asked = shape(rows)[0] * per_token;
  const std::int64_t sent = share_of(asked, request_.expert_load.sent(graph_.routing.experts));
  graph_.expert_rows = static_cast<double>(sent) / static_cast<double>(asked);
  return op("panpipe_nn::dispatch", {sent, shape(rows)[1]}, dtype(rows), TensorRef{rows}, TensorRef{chosen});
}

int GraphBuilder::expert_parameter(std::string name, Shape full_shape, std::string_view init, int shard, int fused_matrices) {
  if (!experts_apart()) return parameter(std::move(name), std::move(full_shape), init, shard, fused_matrices);
  const int index = parameter(std::move(name), std::move(full_shape), init);
  Tensor& tensor = graph_.tensors[index];
  tensor.gradient_partial = false;  // its tokens come from all ranks
  tensor.experts = true;
  tensor.shape[0] /= graph_.degrees.expert;
  if (shard < 0 || graph_.degrees.expert_tensor_group() == 1) return index;
  tensor.shape[shard] /= graph_.degrees.expert_tensor_group();
  tensor.shard_dimension = shard;
  tensor.fused_matrices = fused_matrices;
  return index;
}

// Megatron's all-to-all dispatcher: rows go to the ranks of their experts; ranks that divide an expert gather what each of them
// received; rows of one expert are brought together.
Arrived GraphBuilder::send_to_experts(int rows, int chosen) {
  Arrived arrived{rows};
  if (!experts_apart()) return arrived;
  const std::int64_t sent = shape(rows)[0], features = shape(rows)[1];
  const std::int64_t own_experts = graph_.routing.experts / graph_.degrees.expert;
  if (graph_.degrees.expert > 1) {
    const ExpertLoad& load = request_.expert_load;
    const int experts = graph_.routing.experts;
    const std::int64_t received = share_of(sent, load.received(graph_.degrees.expert, experts) / load.sent(experts));
    arrived.rows = op("panpipe::send_to_experts", {received, features}, dtype(rows), TensorRef{rows}, TensorRef{chosen});
    collectives(CollectiveKind::AllToAll, CollectiveKind::AllToAll, Among::Expert);
    arrived.counts = second_output("panpipe::send_to_experts", {graph_.degrees.expert, own_experts});
  }
  const int together = graph_.degrees.expert_tensor_group();
  if (together > 1) {
    arrived.own_counts = arrived.counts;
    arrived.rows = op("panpipe::gather_rows", {shape(arrived.rows)[0] * together, features}, dtype(rows), TensorRef{arrived.rows},
                      TensorRef{arrived.own_counts});
    collectives(CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
    arrived.counts = second_output("panpipe::gather_rows", {std::int64_t{together} * graph_.degrees.expert, own_experts});
  }
  // The other tensor-parallel ranks have as many tokens of their own.
  graph_.expert_rows *= static_cast<double>(shape(arrived.rows)[0]) / (static_cast<double>(sent) * graph_.degrees.tensor);
  return arrived;
}

int GraphBuilder::send_back(int rows, const Arrived& arrived, std::int64_t sent) {
  if (!experts_apart()) return rows;
  const std::int64_t features = shape(rows)[1];
  int counts = arrived.counts;
  if (graph_.degrees.expert_tensor_group() > 1) {
    rows = op("panpipe::scatter_rows", {shape(rows)[0] / graph_.degrees.expert_tensor_group(), features}, dtype(rows),
              TensorRef{rows}, TensorRef{counts});
    collectives(CollectiveKind::ReduceScatter, CollectiveKind::AllGather);
    counts = arrived.own_counts;
  }
  if (graph_.degrees.expert > 1) {
    rows = op("panpipe::send_back", {sent, features}, dtype(rows), TensorRef{rows}, TensorRef{counts});
    collectives(CollectiveKind::AllToAll, CollectiveKind::AllToAll, Among::Expert);
  }
  return rows;
}

int GraphBuilder::regroup(int rows, const Arrived& arrived, int experts, bool back) {
  if (graph_.degrees.expert == 1 || graph_.degrees.expert == experts) return rows;
  return op("panpipe_nn::regroup", shape(rows), dtype(rows), TensorRef{rows}, TensorRef{arrived.counts}, back);
}

int GraphBuilder::grouped_linear(int rows, int chosen, const Arrived& arrived, int weight, int bias, std::int64_t out_features,
                                 bool transposed) {
  PANPIPE_CHECK(shape(weight)[transposed ? 2 : 1] == out_features, "grouped_linear: features do not fit at " + module_);
  PANPIPE_CHECK(shape(weight)[transposed ? 1 : 2] == shape(rows)[1], "grouped_linear: inputs do not fit at " + module_);
  // A bias that all ranks hold whole is added only once in the sum over the ranks.
  const bool whole_bias =
      bias >= 0 && shape(bias)[1] == graph_.tensors[bias].full_shape[1] && graph_.tensors[bias].shard_dimension < 0;
  const int ranks = graph_.degrees.expert_tensor_group();
  const double share = whole_bias ? 1.0 / ranks : 1.0;
  if (whole_bias && ranks > 1) graph_.tensors[bias].gradient_partial = true;
  const int made = op("panpipe_nn::grouped_linear", {shape(rows)[0], out_features}, dtype(rows), TensorRef{rows},
                      TensorRef{chosen}, TensorRef{weight}, optional(bias), transposed, share);
  if (arrived.counts >= 0) graph_.operators.back().arguments.emplace_back(TensorRef{arrived.counts});
  return made;
}

int GraphBuilder::combine(int rows, const Routed& routed) {
  return op("panpipe_nn::combine", {shape(routed.experts)[0], shape(rows)[1]}, dtype(rows), TensorRef{rows},
            TensorRef{routed.weights}, TensorRef{routed.experts});
}

}  // namespace panpipe
