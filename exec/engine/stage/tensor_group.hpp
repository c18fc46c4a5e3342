// The ranks that share a stage's operators (tensor parallelism), and what they reduce together. Everything is posted and
// awaited apart, so that a rank computes meanwhile; every rank of the group posts in the same order.
//
// Transports sum; gathering and scattering a sequence are made of sums (an all-gather sums zero-padded parts, a reduce-scatter
// sums the whole and keeps a part), which moves up to twice the bytes of a ring that knows them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/measure/span_log.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

class TensorGroup {
 public:
  struct Posted {
    PendingPtr pending;
    at::Tensor value;
    CollectiveKind kind{};
    std::int64_t dimension = 0;
    Action action;  // of whose pass it is part
    SpanLog::Moment at;
  };
  using PostedPtr = std::shared_ptr<Posted>;

  // `shard`: this rank's place in the group. Collectives are noted in `spans`, on the tensor lane.
  TensorGroup(Transport& transport, Group group, int shard, Clock::duration deadline, SpanLog& spans);
  int shard() const { return shard_; }
  int degree() const { return static_cast<int>(group_.ranks.size()); }

  // Whose pass the next ones belong to.
  void set_action(const Action& action) { action_ = action; }
  // The value's memory is reduced in place where nobody else holds it: hand it over. `dimension`: of gathers and scatters.
  PostedPtr post(CollectiveKind kind, at::Tensor value, std::int64_t dimension = 0);
  // Waits. Called once.
  at::Tensor take(Posted& posted);
  at::Tensor own_part(const at::Tensor& value, std::int64_t dimension) const;

  // The waits of take() since it was last asked, appended.
  void move_waits_to(std::vector<SpanLog::Interval>& waits);

 private:
  Transport& transport_;
  Group group_;
  int shard_;
  Clock::duration deadline_;
  Action action_;
  SpanLog& spans_;
  std::vector<SpanLog::Interval> waits_;
};

}  // namespace panpipe::exec
