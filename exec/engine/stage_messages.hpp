// The messages between a rank's stages and other stages: activations forward, gradients backward, over the transport or, between
// stages of the same rank, through memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/measure/span_log.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/microbatch_lengths.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Index of `tensor` in a list of a stage's tensors; it must be present.
std::size_t position_in(const std::vector<int>& names, int tensor);

class StageMessages {
 public:
  // Messages between ranks of the same replica and shard. `action` is set to the awaited message during a wait, then restored.
  // Transfers are recorded in `spans`. `lengths`: with microbatches of unequal length. References must outlive the object.
  StageMessages(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, Transport& transport, at::Device device,
                Clock::duration deadline, std::string& action, SpanLog& spans, const std::vector<MicrobatchLength>& lengths = {});

  // Posts the receives that the action needs, so that data travel while others compute.
  void post(const Action& action);
  // For stage `action.stage`: the activations that F reads, in the order of `tensors` (undefined for data); the gradients of its
  // outputs, summed over consumers (undefined if none flows).
  std::vector<at::Tensor> take_inputs(const Action& action, const std::vector<int>& tensors);
  std::vector<at::Tensor> take_gradients(const Action& action, const std::vector<int>& tensors);
  // `evaluates`: nobody runs a backward, so stages that run backwards alone get nothing.
  void give_outputs(const Action& action, const std::vector<int>& tensors, const std::vector<at::Tensor>& values,
                    bool evaluates = false);
  void give_gradients(const Action& action, const std::vector<int>& tensors, const std::vector<at::Tensor>& values);
  // Takes an activation that no pass will read: its forward runs again.
  void drop(int message, int slice);
  void drop_local() { local_.clear(); }
  // Waits until all sent memory may be reused.
  void finish();

 private:
  struct Posted {
    Clock::time_point at;
    PendingPtr pending;
    int tensor = 0;
  };
  using MessageKey = std::pair<int, std::pair<int, bool>>;  // (message, (slice, backward))

  const Message& message(int index) const { return layout_.messages[index]; }
  const StageRange& range(int stage) const { return layout_.stages[stage]; }
  int rank_of_stage(int stage) const;
  const Tensor& tensor_of(const Message& message, std::size_t number, int slice) const;
  void post_message(int index, int slice, bool backward);
  std::vector<at::Tensor> take(int index, const Action& of, bool backward);
  void give(int index, const Action& of, bool backward, const std::vector<at::Tensor>& values);
  void note_transfer(int index, const Action& of, bool backward, bool sends, SpanLog::Moment start,
                     std::vector<SpanLog::Moment> ends, std::int64_t bytes);

  const OperatorGraph& graph_;
  const Plan& plan_;
  const StageLayout& layout_;
  Transport& transport_;
  at::Device device_;
  Clock::duration deadline_;
  std::string& action_;
  MeshPlace place_;
  std::map<MessageKey, std::vector<Posted>> posted_;
  std::map<MessageKey, std::vector<at::Tensor>> local_;  // between stages of this rank
  std::vector<PendingPtr> sends_;
  SpanLog& spans_;
  std::vector<const OperatorGraph*> of_length_;  // empty if all microbatches are alike
};

}  // namespace panpipe::exec
