// The work of operators, a rule for each formula. Internal to this folder: rows of operator_table.cpp name them. Conventions:
// docs/models/workloads.md.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/operator_table.hpp"

namespace panpipe {

// One operator with its graph: short names for what the rules need.
struct OperatorView {
  const OperatorGraph& graph;
  const Operator& op;
  const OperatorRow& row;
  int first_operator = 0;  // results of operators before it are given: how they were made does not matter

  const Tensor& tensor(int index) const { return graph.tensors[index]; }
  int producer(int index) const { return tensor(index).producer < first_operator ? -1 : tensor(index).producer; }
  int operand(std::string_view name) const { return tensor_of(argument(op, row, name)); }
  const Tensor& in(std::string_view name) const {
    const int index = operand(name);
    PANPIPE_CHECK(index >= 0, op.target + " lacks an operand");
    return tensor(index);
  }
  // The schema's first argument, and its second, whatever their names.
  const Tensor& first() const { return in(row.names[0]); }
  const Tensor& second() const { return in(row.names[1]); }
  const Tensor& out() const { return tensor(op.outputs.front()); }
  Bytes bytes(std::string_view name) const { return operand(name) >= 0 ? in(name).bytes() : Bytes(0); }
};

// The multiplications and additions of the whole model's forward pass (PaLM's convention). `input` and `weight`, if any: their
// gradients are as many again each, and fall away where nothing is trained.
struct ModelProduct {
  Flops forward{0};
  const Tensor* input = nullptr;
  const Tensor* weight = nullptr;
};

struct WorkRule {
  OperatorWork (*work)(const OperatorView&);
  // Dimensions of the schema's first arguments, as the rule reads them: tensors with that many, or any number of them (kAny). An
  // operator with others costs what an unknown one costs.
  std::array<std::int8_t, 3> dimensions{};
  ModelProduct (*model)(const OperatorView&) = nullptr;

  static constexpr std::int8_t kAny = -1;
  bool fits(const OperatorView& view) const;
};

namespace work_rules {
// One pass over what it reads and writes, and as much backward; operands are kept. Also of views, those that copy after all.
extern const WorkRule kAnyOperator;
extern const WorkRule kKeepsNothing;  // likewise, but its derivative needs no tensor
extern const WorkRule kLayerNorm, kRmsNorm, kGroupNorm;
extern const WorkRule kSum, kMultiply, kDivide;
extern const WorkRule kMove;        // element by element; its backward needs nothing either
extern const WorkRule kActivation;  // keeps its input
extern const WorkRule kGelu;        // likewise
extern const WorkRule kTanh;        // keeps its output
extern const WorkRule kDropout, kCast, kConcatenation, kMaskedFill, kUpsample;
extern const WorkRule kEmbedding;
extern const WorkRule kCrossEntropy, kVocabularyCrossEntropy, kSquaredError;
extern const WorkRule kRoute, kDispatch, kRegroup, kCombine;
extern const WorkRule kCollective;
// operator_rules_products.cpp
extern const WorkRule kLinear;         // (input, weight, bias)
extern const WorkRule kProduct;        // of the last two tensors, [batch, m, k] and [batch, k, n]
extern const WorkRule kAddedProduct;   // the same, added to the first tensor
extern const WorkRule kGroupedLinear;  // (rows, chosen, weight, bias, ...)
extern const WorkRule kConvolution, kTransposedConvolution;
extern const WorkRule kAttention, kSparseAttention;
// operator_rules_linear.cpp
extern const WorkRule kCausalConvolution;                    // (input, weight, bias)
extern const WorkRule kGatedDelta, kStateSpace, kLightning;  // (query, key, value, chunk, numbers)
extern const WorkRule kMixStreams;                           // (streams, weights)
extern const WorkRule kSelectiveScan;                        // (query, key, value, step, decay)
extern const WorkRule kChooseKeys;                           // (query, key, weights, heads, count)

constexpr std::int8_t kAny = WorkRule::kAny;
constexpr std::int64_t kStatisticBytes = 4;  // mean, deviation, log-sum-exp are kept in 32 bits

// What rules are made of.
Flops product_flops(const GemmShape& shape);
PassWork traffic(Bytes read, Bytes written, double operations);
OperatorWork made(OperatorClass kind, PassWork forward, PassWork input_gradient = {});
std::int64_t rows_of(const Shape& shape);  // all but its last extent
// The tensor is kept for the backward.
void keep(const OperatorView& view, OperatorWork& work, int tensor);
}  // namespace work_rules

// The last cast between the first logits and a loss over classes, which counts it; -1: none.
int cast_before(const OperatorView& loss);

}  // namespace panpipe
