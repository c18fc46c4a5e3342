// The ranks that communicate inside passes: those that share a stage's operators (tensor parallelism), a sample's sequence
// (context) or the experts of a model. Everything is posted and awaited apart, so that a rank computes meanwhile; every rank of a
// group posts in the same order.
//
// Parts along another dimension than the first are brought together by a copy, since transports gather and sum what lies behind
// one another. A step of a ring is messages between two ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "costmodel/workload/graph.hpp"
#include "exec/engine/measure/span_log.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

class PassGroup {
 public:
  struct Posted {
    std::vector<PendingPtr> pending;
    std::vector<PendingPtr> arriving;  // of `pending`, in the order of the senders: what take_all() gives
    PendingPtr exchanged;              // of `pending`: rows of all members
    at::Tensor value;
    CollectiveKind kind{};
    std::int64_t dimension = 0;
    std::int64_t bytes = 0;
    Action action;  // of whose pass it is part
    SpanLog::Moment at;
  };
  using PostedPtr = std::shared_ptr<Posted>;

  // What the groups of a rank share.
  struct Course {
    Transport& transport;
    Clock::duration deadline;
    SpanLog& spans;
    Action action{};  // whose pass the next ones belong to
    std::vector<SpanLog::Interval> waits{};
  };

  // `member`: this rank's place in the group. Collectives are noted in the course's spans, on the tensor lane.
  PassGroup(Course& course, Among among, Group group, int member);
  int member() const { return member_; }
  int degree() const { return static_cast<int>(group_.ranks.size()); }

  // AllReduce, AllGather, ReduceScatter. The value's memory is reduced in place where nobody else holds it: hand it over.
  // `dimension`: of gathers and scatters. AllToAll: row j of the first dimension, one for each member, goes to member j.
  PostedPtr post(CollectiveKind kind, at::Tensor value, std::int64_t dimension = 0);
  // Waits. Called once.
  at::Tensor take(Posted& posted);
  at::Tensor own_part(const at::Tensor& value, std::int64_t dimension) const;

  // Rows of the first dimension: the first sent[0] of them to member 0, and so on; from member i come received[i]. Taken by
  // take(). `kind`: what it stands for. AllToAll: the rows are those that arrive; AllGather: so, of rows that all get;
  // ReduceScatter: the sum of what arrives, of each member as many.
  PostedPtr exchange(CollectiveKind kind, const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                     const std::vector<std::int64_t>& received);
  // Row i of the numbers, on the host, to member i; gives what the members have for this one. Waits. Part of the collective that
  // is posted next, whose sizes they are.
  at::Tensor swap_numbers(const at::Tensor& numbers);

  // A step of a ring: these to the member `by` further on, the like from the one `by` before.
  PostedPtr pass_on(const std::vector<at::Tensor>& values, int by);
  std::vector<at::Tensor> take_all(Posted& posted);

 private:
  PostedPtr begin(CollectiveKind kind);
  void await(Posted& posted);
  std::uint32_t next_tag();

  Course& course_;
  Among among_;
  Group group_;
  int member_;
  std::uint32_t messages_ = 0;
  std::optional<SpanLog::Moment> swapped_;  // since when the collective that is posted next is under way
};

// The groups of one rank.
class PassGroups {
 public:
  // Every rank makes them at the same time, as transports want it.
  PassGroups(const Plan& plan, Transport& transport, Clock::duration deadline, SpanLog& spans);

  PassGroups(const PassGroups&) = delete;
  PassGroups& operator=(const PassGroups&) = delete;

  PassGroup* of(Among among) const { return groups_[index_of(among)].get(); }  // null where it has one member
  bool any() const { return any_; }
  int member(Among among) const { return of(among) != nullptr ? of(among)->member() : 0; }

  // Whose pass the next ones belong to.
  void set_action(const Action& action) { course_.action = action; }
  // The waits of take() since it was last asked, appended.
  void move_waits_to(std::vector<SpanLog::Interval>& waits);

 private:
  PassGroup::Course course_;
  std::array<std::unique_ptr<PassGroup>, kAmongPasses> groups_;
  bool any_ = false;
};

}  // namespace panpipe::exec
