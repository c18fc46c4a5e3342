// Tensor parallelism as in Megatron (Shoeybi et al., arXiv 1909.08053; with sequence parallelism Korthikanti et al., arXiv
// 2205.05198): the communicating operators, and the embedding and loss divided over the vocabulary.
#include <fmt/format.h>

#include "costmodel/workload/builder.hpp"

namespace panpipe {
namespace {

constexpr int kSequenceDimension = 1;        // activations are (sample, sequence, feature)
constexpr std::int64_t kMegatronRows = 128;  // Megatron's --make-vocab-size-divisible-by

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, int degree) {
  if (vocabulary % degree == 0) return vocabulary;
  const std::int64_t multiple = kMegatronRows * degree;
  return (vocabulary + multiple - 1) / multiple * multiple;
}

int GraphBuilder::enter_vocabulary(int x) {
  if (graph_.degrees.tensor == 1) return x;
  const int result = op("panpipe::copy_to_tensor_parallel", shape(x), dtype(x), TensorRef{x});
  collectives(CollectiveKind::None, CollectiveKind::AllReduce);
  return result;
}

// From parts of the sequence to the whole of it, or back.
int GraphBuilder::along_sequence(std::string_view target, int x, bool whole, CollectiveKind forward, CollectiveKind backward) {
  Shape result = shape(x);
  std::int64_t& tokens = result[kSequenceDimension];
  tokens = whole ? tokens * graph_.degrees.tensor : tokens / graph_.degrees.tensor;
  const int made = op(target, std::move(result), dtype(x), TensorRef{x}, std::int64_t{kSequenceDimension});
  collectives(forward, backward);
  in_sequence_region_ = !whole;
  return made;
}

int GraphBuilder::gather_sequence(int x) {
  if (!graph_.degrees.sequence_parallel) return x;
  // Every rank holds the whole gradient and keeps its part.
  return along_sequence("panpipe::gather_sequence", x, true, CollectiveKind::AllGather, CollectiveKind::None);
}

int GraphBuilder::enter_parallel(int x) {
  if (!graph_.degrees.sequence_parallel) return enter_vocabulary(x);
  return along_sequence("panpipe::gather_from_sequence_parallel", x, true, CollectiveKind::AllGather,
                        CollectiveKind::ReduceScatter);
}

int GraphBuilder::sum_parallel(int x) {
  if (graph_.degrees.tensor == 1) return x;
  const int result = op("panpipe::reduce_from_tensor_parallel", shape(x), dtype(x), TensorRef{x});
  collectives(CollectiveKind::AllReduce, CollectiveKind::None);
  return result;
}

int GraphBuilder::leave_parallel(int x) {
  if (!graph_.degrees.sequence_parallel) return sum_parallel(x);
  return along_sequence("panpipe::reduce_scatter_to_sequence_parallel", x, false, CollectiveKind::ReduceScatter,
                        CollectiveKind::AllGather);
}

int GraphBuilder::scatter_sequence(int x) {
  if (!graph_.degrees.sequence_parallel) return x;
  return along_sequence("panpipe::scatter_to_sequence_parallel", x, false, CollectiveKind::None, CollectiveKind::AllGather);
}

int GraphBuilder::vocabulary_parameter(std::string name, Shape full_shape, std::string_view init) {
  const int degree = graph_.degrees.tensor;
  const int index = parameter(std::move(name), std::move(full_shape), init);
  if (degree == 1) return index;
  Tensor& tensor = graph_.tensors[index];
  tensor.shape[0] = padded_vocabulary(tensor.full_shape[0], degree) / degree;
  tensor.shard_dimension = 0;
  return index;
}

int GraphBuilder::vocabulary_start(std::int64_t rows) {
  if (vocabulary_start_ < 0)
    vocabulary_start_ = buffer("vocabulary_start", DType::Int64, {}, fmt::format("tensor_rank_times({})", rows));
  return vocabulary_start_;
}

int GraphBuilder::vocabulary_embedding(int ids, int weight, std::int64_t vocabulary) {
  if (graph_.degrees.tensor == 1) return embedding(ids, weight);
  const std::int64_t rows = padded_vocabulary(vocabulary, graph_.degrees.tensor) / graph_.degrees.tensor;
  const int start = vocabulary_start(rows);
  const Shape tokens = shape(ids);
  const int local = op("aten::sub.Tensor", tokens, DType::Int64, TensorRef{ids}, TensorRef{start}, std::int64_t{1});
  const int below = op("aten::lt.Scalar", tokens, DType::Bool, TensorRef{local}, std::int64_t{0});
  const int above = op("aten::ge.Scalar", tokens, DType::Bool, TensorRef{local}, rows);
  const int outside = op("aten::logical_or", tokens, DType::Bool, TensorRef{below}, TensorRef{above});
  const int safe = op("aten::masked_fill.Scalar", tokens, DType::Int64, TensorRef{local}, TensorRef{outside}, std::int64_t{0});
  const int found = embedding(safe, weight);
  const int mask = unsqueeze(outside, 2);
  return op("aten::masked_fill.Scalar", shape(found), dtype(found), TensorRef{found}, TensorRef{mask}, std::int64_t{0});
}

int GraphBuilder::vocabulary_cross_entropy(int logits, int labels, std::int64_t vocabulary) {
  if (graph_.degrees.tensor == 1) return cross_entropy(logits, labels);
  const std::int64_t rows = shape(logits).back();
  const int start = vocabulary_start(rows);
  const int wide = cast(logits, DType::Float32);
  const int loss = op("panpipe::vocabulary_parallel_cross_entropy", {}, DType::Float32, TensorRef{wide}, TensorRef{labels},
                      TensorRef{start}, vocabulary, std::int64_t{-100});
  collectives(CollectiveKind::AllReduce, CollectiveKind::None);
  return loss;
}

}  // namespace panpipe
