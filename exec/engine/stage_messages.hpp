// The messages between a rank's stages and other stages: activations forward, gradients backward, over the transport or, between
// stages of the same rank, through memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/microbatch_lengths.hpp"
#include "exec/engine/rank_site.hpp"

namespace panpipe::exec {

// Index of `tensor` in a list of a stage's tensors; it must be present.
std::size_t position_in(const std::vector<int>& names, int tensor);

class StageMessages {
 public:
  // Messages between ranks of the same replica and shard. `lengths`: with microbatches of unequal length.
  StageMessages(RankSite& site, const std::vector<MicrobatchLength>& lengths);

  // Posts the receives that the action needs, so that data travel while others compute.
  void post(const Action& action);
  // For stage `action.stage`, in the order of `tensors`: the activations that a forward reads (undefined for data); or the
  // gradients of its outputs that a backward reads, summed over consumers (undefined if none flows).
  std::vector<at::Tensor> take(const Action& action, const std::vector<int>& tensors, bool backward);
  // A forward's outputs, or a backward's gradients of the inputs. `evaluates`: nobody runs a backward, so stages that run
  // backwards alone get nothing.
  void give(const Action& action, const std::vector<int>& tensors, const std::vector<at::Tensor>& values, bool backward,
            bool evaluates = false);
  // Takes an activation that no pass will read: its forward runs again.
  void drop(int message, int slice);
  void drop_local() { local_.clear(); }
  // Waits until all sent memory may be reused; `what` names the wait.
  void finish(const std::string& what);

 private:
  struct Posted {
    Clock::time_point at;
    PendingPtr pending;
    int tensor = 0;
  };
  using MessageKey = std::pair<int, std::pair<int, bool>>;  // (message, (slice, backward))

  const Message& message(int index) const { return site_.layout.messages[index]; }
  std::vector<int> read_by(const Action& pass, bool backward) const;
  const Tensor& tensor_of(const Message& message, std::size_t number, int slice) const;
  void post_message(int index, int slice, bool backward);
  std::vector<at::Tensor> receive(int index, const Action& of, bool backward);
  void note_transfer(int index, const Action& of, bool backward, bool sends, SpanLog::Moment start,
                     std::vector<SpanLog::Moment> ends, std::int64_t bytes);

  RankSite& site_;
  const std::vector<MicrobatchLength>& lengths_;  // empty if all microbatches are alike
  std::map<MessageKey, std::vector<Posted>> posted_;
  std::map<MessageKey, std::vector<at::Tensor>> local_;  // between stages of this rank
  std::vector<PendingPtr> sends_;
};

}  // namespace panpipe::exec
