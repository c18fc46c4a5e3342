#include "exec/engine/stage/vocabulary_loss.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {
namespace {

constexpr int kLargest = 0, kSum = 1, kLabel = 2, kFacts = 3;
constexpr double kNothing = -1e30;  // below every logit, and finite: zero times it is zero

}  // namespace

OwnedColumns owned(const VocabularyPart& part) {
  const at::Tensor column = part.labels - part.first;
  const at::Tensor here = column.ge(0).logical_and(column.lt(part.columns)).logical_and(part.labels.ne(part.ignored));
  return {column.masked_fill(here.logical_not(), 0), here};
}

at::Tensor vocabulary_statistics(const VocabularyPart& part, int shard, int degree) {
  const at::NoGradGuard no_graph;
  const std::int64_t rows = part.logits.size(0);
  at::Tensor table = at::zeros({degree, kFacts, rows}, part.logits.options());
  at::Tensor mine = table.select(0, shard);
  if (part.columns == 0) {
    mine.select(0, kLargest).fill_(kNothing);
    return table;
  }
  const at::Tensor known = part.logits.narrow(1, 0, part.columns);
  const at::Tensor largest = known.amax(1);
  mine.select(0, kLargest).copy_(largest);
  mine.select(0, kSum).copy_((known - largest.unsqueeze(1)).exp().sum(1));
  const OwnedColumns label = owned(part);
  mine.select(0, kLabel).copy_(known.gather(1, label.column.unsqueeze(1)).squeeze(1) * label.here);
  return table;
}

VocabularyLoss vocabulary_loss(const VocabularyPart& part, const at::Tensor& table) {
  const at::NoGradGuard no_graph;
  VocabularyLoss whole;
  const at::Tensor largest = table.select(1, kLargest);  // (degree, rows)
  whole.largest = largest.amax(0);
  whole.divisor = ((largest - whole.largest).exp() * table.select(1, kSum)).sum(0);
  const at::Tensor counted = part.labels.ne(part.ignored);
  const at::Tensor of_rows = (whole.largest + whole.divisor.log() - table.select(1, kLabel).sum(0)) * counted;
  whole.loss = of_rows.sum() / counted.sum();
  return whole;
}

at::Tensor vocabulary_gradient(const VocabularyPart& part, const VocabularyLoss& whole, const at::Tensor& loss_gradient) {
  const at::NoGradGuard no_graph;
  at::Tensor gradient = (part.logits - whole.largest.unsqueeze(1)).exp_().div_(whole.divisor.unsqueeze(1));
  if (part.columns < gradient.size(1)) gradient.narrow(1, part.columns, gradient.size(1) - part.columns).zero_();
  const OwnedColumns label = owned(part);
  gradient.scatter_add_(1, label.column.unsqueeze(1), -label.here.to(gradient.scalar_type()).unsqueeze(1));
  const at::Tensor counted = part.labels.ne(part.ignored);
  const at::Tensor weight = counted.to(gradient.scalar_type()) * (loss_gradient / counted.sum().clamp_min(1));
  return gradient.mul_(weight.unsqueeze(1));
}

namespace {

class VocabularyLossOperator : public StageOperator {
 public:
  using StageOperator::StageOperator;

  void forward(ForwardFlow& flow) override {
    VocabularyPart own = vocabulary_part(op(), take(flow, "self"), take(flow, "target"), group().member());
    const auto posted = group().post(CollectiveKind::AllReduce, vocabulary_statistics(own, group().member(), group().degree()));
    VocabularyLoss whole = vocabulary_loss(own, group().take(*posted));
    flow.values[op().outputs[0]].tensor = whole.loss;
    if (flow.recorded) losses_[flow.microbatch] = {std::move(own), std::move(whole)};
  }
  void backward(BackwardFlow& flow) override {
    const at::Tensor gradient = flow.take(op().outputs[0]);
    if (!gradient.defined()) return;
    const auto [own, whole] = std::move(losses_.extract(flow.microbatch).mapped());
    flow.add(tensor_argument(op(), "self"), {vocabulary_gradient(own, whole, gradient)});
  }
  void clear() override { losses_.clear(); }

 private:
  std::unordered_map<int, std::pair<VocabularyPart, VocabularyLoss>> losses_;  // by microbatch
};

}  // namespace

StageOperatorPtr make_vocabulary_loss(const StageSite& site, const StagePart& part) {
  return std::make_unique<VocabularyLossOperator>(site, part);
}

VocabularyPart vocabulary_part(const Operator& op, at::Tensor logits, at::Tensor labels, int shard) {
  const std::int64_t width = logits.size(1), first = width * shard;
  const std::int64_t vocabulary = value_argument<std::int64_t>(op, "vocabulary").value();
  return {std::move(logits), std::move(labels), first, std::clamp<std::int64_t>(vocabulary - first, 0, width),
          value_argument<std::int64_t>(op, "ignore_index").value()};
}

}  // namespace panpipe::exec
