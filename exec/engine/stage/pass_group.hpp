// Groups of ranks that communicate inside passes: ranks that share a stage's operators (tensor parallelism), a sample's sequence
// (context) or the experts of a model. Posting and waiting are separate, so that a rank computes meanwhile. All ranks of a group
// post in the same order.
//
// Parts along a dimension other than the first are joined by a copy, since transports gather and sum contiguous memory. A step of
// a ring consists of messages between two ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/rank_site.hpp"

namespace panpipe::exec {

class PassGroup {
 public:
  struct Posted {
    std::vector<PendingPtr> pending;
    std::vector<PendingPtr> arriving;  // members of `pending` in the order of the senders: the result of take_all()
    PendingPtr exchanged;              // member of `pending`: rows of all members
    at::Tensor value;
    CollectiveKind kind{};
    std::int64_t dimension = 0;
    std::int64_t bytes = 0;
    Action action;  // the pass that it belongs to
    SpanLog::Moment at;
  };
  using PostedPtr = std::shared_ptr<Posted>;

  // `member`: this rank's index in the group. Collectives are recorded in the rank's spans, on the tensor lane.
  PassGroup(RankSite& site, Among among, Group group, int member);
  int member() const { return member_; }
  int degree() const { return static_cast<int>(group_.ranks.size()); }

  // AllReduce, AllGather, ReduceScatter. The value is reduced in place if nothing else holds it, so pass ownership. `dimension`:
  // of gathers and scatters. AllToAll: row j of the first dimension is sent to member j.
  PostedPtr post(CollectiveKind kind, at::Tensor value, std::int64_t dimension = 0);
  // Waits for the result. Call it once.
  at::Tensor take(Posted& posted);
  at::Tensor own_part(const at::Tensor& value, std::int64_t dimension) const;

  // Exchanges rows of the first dimension: the first sent[0] of them go to member 0, and so on; received[i] arrive from member i.
  // take() returns the result. `kind` is the collective that it implements. AllToAll: the arriving rows. AllGather: the same, for
  // rows sent to all. ReduceScatter: the sum of the arriving rows, equally many from each member.
  PostedPtr exchange(CollectiveKind kind, const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                     const std::vector<std::int64_t>& received);
  // Sends row i of the numbers (on the host) to member i, and returns the members' rows for this rank. Waits. The numbers are
  // sizes of the next collective, and count as part of it.
  at::Tensor swap_numbers(const at::Tensor& numbers);

  // A step of a ring: sends these to the member `by` places ahead, and receives the same from the one `by` places behind.
  PostedPtr pass_on(const std::vector<at::Tensor>& values, int by);
  std::vector<at::Tensor> take_all(Posted& posted);

 private:
  PostedPtr begin(CollectiveKind kind);
  void await(Posted& posted);
  std::uint32_t next_tag();

  RankSite& site_;
  Among among_;
  Group group_;
  int member_;
  std::uint32_t messages_ = 0;
  std::optional<SpanLog::Moment> swapped_;  // start of the collective posted next
};

// The groups of one rank.
class PassGroups {
 public:
  // All ranks construct these at the same time, as transports require.
  explicit PassGroups(RankSite& site);

  PassGroups(const PassGroups&) = delete;
  PassGroups& operator=(const PassGroups&) = delete;

  PassGroup* of(Among among) const { return groups_[index_of(among)].get(); }  // nullptr if it has one member
  bool any() const { return any_; }
  int member(Among among) const { return of(among) != nullptr ? of(among)->member() : 0; }

 private:
  std::array<std::unique_ptr<PassGroup>, kAmongPasses> groups_;
  bool any_ = false;
};

}  // namespace panpipe::exec
