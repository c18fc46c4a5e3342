// Cross entropy of logits whose columns (the vocabulary) are divided over tensor-parallel ranks: each rank's part, and the whole
// from all parts. It needs one small sum over the ranks instead of three (maximum, normalizer, the label's logit), because every
// rank writes its values for each row into its own line of a table.
#pragma once

#include <ATen/core/Tensor.h>

#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

struct VocabularyPart {
  at::Tensor logits;            // (rows, columns of this rank), fp32
  at::Tensor labels;            // (rows), ids in the whole vocabulary
  std::int64_t first = 0;       // id of the first column
  std::int64_t columns = 0;     // columns with an id; the rest is padding
  std::int64_t ignored = -100;  // label of rows that do not count
};

// Where the labels (or other ids) stand in this part.
struct OwnedColumns {
  at::Tensor column;  // 0 where it stands elsewhere
  at::Tensor here;    // bool
};
OwnedColumns owned(const VocabularyPart& part);

// Shape (degree, 3, rows). Line `shard` holds each row's largest logit, the sum of exponentials relative to it, and the label's
// logit; other lines are zero. Sum it over the ranks.
at::Tensor vocabulary_statistics(const VocabularyPart& part, int shard, int degree);

struct VocabularyLoss {
  at::Tensor loss;              // mean over the rows that count, 0-dim
  at::Tensor largest, divisor;  // per row: softmax = exp(logit - largest) / divisor
};
VocabularyLoss vocabulary_loss(const VocabularyPart& part, const at::Tensor& summed_statistics);

// Gradient of this rank's logits.
at::Tensor vocabulary_gradient(const VocabularyPart& part, const VocabularyLoss& whole, const at::Tensor& loss_gradient);

// The part of rank `shard` of a loss over the vocabulary. Throws std::bad_optional_access for another operator.
VocabularyPart vocabulary_part(const Operator& op, at::Tensor logits, at::Tensor labels, int shard);

}  // namespace panpipe::exec
