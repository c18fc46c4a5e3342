#include "exec/engine/stage/tensor_group.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

// As the lowering names them.
const char* label_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllGather:
      return "all_gather";
    case CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    default:
      return "all_reduce";
  }
}

// Nobody else sees this memory: not another tensor, not autograd.
bool is_exclusive(const at::Tensor& value) {
  return value.use_count() == 1 && value.storage().use_count() == 1 && value.is_contiguous();
}

}  // namespace

TensorGroup::TensorGroup(Transport& transport, Group group, int shard, Clock::duration deadline, SpanLog& spans)
    : transport_(transport), group_(std::move(group)), shard_(shard), deadline_(deadline), spans_(spans) {}

TensorGroup::PostedPtr TensorGroup::post(CollectiveKind kind, at::Tensor value, std::int64_t dimension) {
  const at::NoGradGuard no_graph;
  auto posted = std::make_shared<Posted>();
  posted->kind = kind;
  posted->dimension = dimension;
  posted->action = action_;
  if (kind == CollectiveKind::AllGather) {
    std::vector<std::int64_t> shape = value.sizes().vec();
    const std::int64_t part = shape[static_cast<std::size_t>(dimension)];
    shape[static_cast<std::size_t>(dimension)] *= degree();
    posted->value = at::zeros(shape, value.options());
    posted->value.narrow(dimension, part * shard_, part).copy_(value);
  } else {
    posted->value = is_exclusive(value) ? std::move(value) : value.clone(at::MemoryFormat::Contiguous);
  }
  posted->at = spans_.now();
  posted->pending = transport_.all_reduce(posted->value, group_);
  return posted;
}

at::Tensor TensorGroup::take(Posted& posted) {
  SpanLog::Moment asked = spans_.now();
  posted.pending->wait(deadline_, fmt::format("{}, waiting for the {} of the tensor-parallel ranks", to_text(posted.action),
                                              label_of(posted.kind)));
  waits_.emplace_back(std::move(asked), spans_.now());
  Span span;
  span.device = transport_.rank();
  span.lane = Lane::Tensor;
  span.action = posted.action;
  span.label = label_of(posted.kind);
  span.bytes = Bytes(static_cast<std::int64_t>(posted.value.nbytes()));
  spans_.note(std::move(span), posted.at, {posted.at, spans_.done(*posted.pending)});
  posted.pending.reset();
  at::Tensor value = std::move(posted.value);
  return posted.kind == CollectiveKind::ReduceScatter ? own_part(value, posted.dimension) : value;
}

at::Tensor TensorGroup::own_part(const at::Tensor& value, std::int64_t dimension) const {
  const at::NoGradGuard no_graph;
  const std::int64_t part = value.size(dimension) / degree();
  return value.narrow(dimension, part * shard_, part).clone(at::MemoryFormat::Contiguous);
}

void TensorGroup::move_waits_to(std::vector<SpanLog::Interval>& waits) {
  std::move(waits_.begin(), waits_.end(), std::back_inserter(waits));
  waits_.clear();
}

}  // namespace panpipe::exec
