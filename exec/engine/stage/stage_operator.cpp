#include "exec/engine/stage/stage_operator.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace panpipe::exec {

const at::Tensor& PassTensor::resolve() {
  if (posted) {
    tensor = by->take(*std::exchange(posted, nullptr));
    if (after) tensor = after(tensor);
  }
  return tensor;
}

at::Tensor BackwardFlow::take(int tensor) {
  const at::NoGradGuard no_graph;
  auto found = gradients.extract(tensor);
  if (found.empty()) return {};
  at::Tensor sum;
  for (PassTensor& part : found.mapped()) {
    at::Tensor value = part.resolve();
    part.tensor.reset();  // held once: what is summed over ranks next is then summed in place
    if (value.defined()) sum = sum.defined() ? at::add(sum, value) : std::move(value);
  }
  return sum;
}

void BackwardFlow::add(int tensor, PassTensor gradient) {
  if (gradient.posted || gradient.tensor.defined()) gradients[tensor].push_back(std::move(gradient));
}

bool StageOperator::posts(bool backward) const {
  return part_.communicates && (backward ? op().backward_collective : op().forward_collective) != CollectiveKind::None;
}

at::Tensor StageOperator::take(ForwardFlow& flow, int tensor) const {
  const auto found = flow.values.find(tensor);
  PANPIPE_CHECK(found != flow.values.end(), fmt::format("tensor {} is not there yet", tensor));
  found->second.resolve();
  if (!std::binary_search(part_.dead.begin(), part_.dead.end(), tensor)) return found->second.tensor;
  return std::move(flow.values.extract(found).mapped().tensor);
}

std::uint64_t StageOperator::seed_of(const CallContext& context, bool divided) const {
  const auto shard = static_cast<std::uint64_t>(site_.groups.member(Among::Tensor));
  return divided ? context.seed ^ 0x9e3779b97f4a7c15ULL * shard : context.seed;
}

StageOperatorPtr make_operator(const StageSite& site, const StagePart& part) {
  if (!part.communicates) return make_segment(site, part);
  const Operator& op = site.graph.operators[part.first_operator];
  const bool posts = op.forward_collective != CollectiveKind::None || op.backward_collective != CollectiveKind::None;
  PANPIPE_CHECK(!posts || site.groups.of(op.among) != nullptr,
                fmt::format("{} communicates, but there are no ranks to do so", op.target));
  switch (row_of(op).role) {
    case OperatorRole::Loss:
      return make_vocabulary_loss(site, part);
    case OperatorRole::Attention:
      return make_context_attention(site, part);
    case OperatorRole::ExpertTransfer:
      return make_expert_rows(site, part);
    case OperatorRole::HeadExchange:
      return make_head_exchange(site, part);
    default:
      return make_collective(site, part);
  }
}

}  // namespace panpipe::exec
