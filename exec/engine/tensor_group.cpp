#include "exec/engine/tensor_group.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/error.hpp"

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

TensorGroup::TensorGroup(Transport& transport, Group group, int shard, Clock::duration deadline)
    : transport_(transport), group_(std::move(group)), shard_(shard), deadline_(deadline) {}

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
  posted->at = Clock::now();
  posted->pending = transport_.all_reduce(posted->value, group_);
  return posted;
}

at::Tensor TensorGroup::take(Posted& posted) {
  const Clock::time_point asked = Clock::now();
  posted.pending->wait(deadline_, fmt::format("{}, waiting for the {} of the tensor-parallel ranks", to_text(posted.action),
                                              label_of(posted.kind)));
  const Clock::time_point now = Clock::now();
  waited_ += now - asked;
  const Clock::time_point end = posted.pending->completed == Clock::time_point{} ? now : posted.pending->completed;
  done_.push_back(
      {posted.action, posted.kind, posted.at, std::max(posted.at, end), static_cast<std::int64_t>(posted.value.nbytes())});
  posted.pending.reset();
  at::Tensor value = std::move(posted.value);
  return posted.kind == CollectiveKind::ReduceScatter ? own_part(value, posted.dimension) : value;
}

at::Tensor TensorGroup::own_part(const at::Tensor& value, std::int64_t dimension) const {
  const at::NoGradGuard no_graph;
  const std::int64_t part = value.size(dimension) / degree();
  return value.narrow(dimension, part * shard_, part).clone(at::MemoryFormat::Contiguous);
}

Duration TensorGroup::take_waiting() {
  const Duration waited = seconds(std::chrono::duration<double>(waited_).count());
  waited_ = {};
  return waited;
}

std::vector<Span> TensorGroup::take_spans(Clock::time_point step_started) {
  const auto at = [&](Clock::time_point time) { return seconds(std::chrono::duration<double>(time - step_started).count()); };
  std::vector<Span> spans;
  for (const Done& done : done_) {
    Span span;
    span.device = transport_.rank();
    span.lane = Lane::Tensor;
    span.action = done.action;
    span.label = label_of(done.kind);
    span.start = at(done.start);
    span.end = at(done.end);
    span.bytes = Bytes(done.bytes);
    spans.push_back(std::move(span));
  }
  done_.clear();
  return spans;
}

}  // namespace panpipe::exec
