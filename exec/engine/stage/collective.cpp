// A sum, gather or scatter over tensor- or context-parallel ranks, along one dimension.
#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {
namespace {

class Collective : public StageOperator {
 public:
  using StageOperator::StageOperator;

  void forward(ForwardFlow& flow) override {
    at::Tensor value = take(flow, "self");
    flow.values[op().outputs[0]] = over_ranks(op().forward_collective, op().backward_collective, std::move(value));
  }
  void backward(BackwardFlow& flow) override {
    at::Tensor gradient = flow.take(op().outputs[0]);
    if (gradient.defined())
      flow.add(tensor_argument(op(), "self"), over_ranks(op().backward_collective, op().forward_collective, std::move(gradient)));
  }

 private:
  PassTensor over_ranks(CollectiveKind kind, CollectiveKind other_way, at::Tensor value) const {
    const std::int64_t dimension = value_argument<std::int64_t>(op(), "dim").value_or(0);
    if (kind != CollectiveKind::None) return {{}, group().post(kind, std::move(value), dimension), &group()};
    // Against a gather in the other direction each rank takes its part of what all have.
    return {other_way == CollectiveKind::AllGather ? group().own_part(value, dimension) : std::move(value)};
  }
};

}  // namespace

StageOperatorPtr make_collective(const StageSite& site, const StagePart& part) {
  return std::make_unique<Collective>(site, part);
}

}  // namespace panpipe::exec
