// Operators of a mixture of experts. None is ATen's: the executor registers them, and count_work knows them.
#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {

Routed GraphBuilder::route(int logits, int correction, const Experts& of) {
  const Shape chosen = {shape(logits)[0], of.per_token};
  const int weights = op("panpipe_nn::route", chosen, dtype(logits), TensorRef{logits}, optional(correction),
                         std::int64_t{of.per_token}, of.sigmoid, of.normalized, of.scale);
  const int experts = make_activation("panpipe_nn::route", chosen, DType::Int64);
  graph_.tensors.back().producer = static_cast<int>(graph_.operators.size()) - 1;
  graph_.tensors.back().requires_gradient = false;
  graph_.operators.back().outputs.push_back(experts);
  return {weights, experts};
}

int GraphBuilder::dispatch(int rows, int chosen, int per_token) {
  return op("panpipe_nn::dispatch", {shape(rows)[0] * per_token, shape(rows)[1]}, dtype(rows), TensorRef{rows},
            TensorRef{chosen});
}

int GraphBuilder::grouped_linear(int rows, int chosen, int weight, int bias, std::int64_t out_features, bool transposed) {
  PANPIPE_CHECK(shape(weight)[transposed ? 2 : 1] == out_features, "grouped_linear: features do not fit at " + module_);
  PANPIPE_CHECK(shape(weight)[transposed ? 1 : 2] == shape(rows)[1], "grouped_linear: inputs do not fit at " + module_);
  // A bias that all ranks hold whole is added by each of them: the sum over the ranks has it once.
  const bool whole_bias = bias >= 0 && shape(bias)[1] == graph_.tensors[static_cast<std::size_t>(bias)].full_shape[1] &&
                          graph_.tensors[static_cast<std::size_t>(bias)].shard_dimension < 0;
  const double share = whole_bias ? 1.0 / graph_.tensor_degree : 1.0;
  if (whole_bias && graph_.tensor_degree > 1) graph_.tensors[static_cast<std::size_t>(bias)].gradient_partial = true;
  return op("panpipe_nn::grouped_linear", {shape(rows)[0], out_features}, dtype(rows), TensorRef{rows}, TensorRef{chosen},
            TensorRef{weight}, optional(bias), transposed, share);
}

int GraphBuilder::combine(int rows, const Routed& routed) {
  return op("panpipe_nn::combine", {shape(routed.experts)[0], shape(rows)[1]}, dtype(rows), TensorRef{rows},
            TensorRef{routed.weights}, TensorRef{routed.experts});
}

}  // namespace panpipe
