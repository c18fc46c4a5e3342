// One rank of a run: executes its actions of the schedule, step after step.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/context/sequence_share.hpp"
#include "exec/engine/data_feed.hpp"
#include "exec/engine/fault.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/measure/span_log.hpp"
#include "exec/engine/slices/attended_sequence.hpp"
#include "exec/engine/stage/activation_offload.hpp"
#include "exec/engine/stage/segmented_stage.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/stage_messages.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Data of one microbatch, whole where its sequence is cut into slices: value of a graph input. `sample` counts microbatches over
// steps and replicas.
using DataSource = std::function<at::Tensor(int graph_input, std::int64_t sample)>;

struct WorkerOptions {
  std::uint64_t seed = 0;
  at::Device device = at::kCPU;                         // that the rank computes on
  Clock::duration deadline = std::chrono::seconds(10);  // longest wait for a peer
  int receives_ahead = 4;                               // actions whose receives are posted before their turn
  std::int64_t first_sample = 0;                        // added to the count of microbatches: data begin further on
  std::optional<at::ScalarType> autocast{};             // mixed precision of an fp32 graph
  // Called around each entry of the rank's order; and with each microbatch's loss in the order of the passes, on a GPU at the end
  // of the step.
  std::function<void(std::size_t)> before_action{}, after_action{};
  std::function<void(int, double)> on_loss{};
  double loss_scale = 1.0;  // multiplies the loss's gradient; the optimizer divides
};

struct StepResult {
  double loss_sum = 0;  // over this rank's loss microbatches; 0 where the loss stage is not, and on all shards but the first
  // Device and peer = world ranks; times since `started`. The flow id of a transfer is its message's tag, the same on both sides;
  // a send ends here when it was handed over, a receive starts when it was posted: gathering puts the two together. Passes that
  // are woven overlap on the compute lane, each from its first step to its last.
  std::vector<Span> spans;
  Clock::time_point started;
  MemoryAccount::Trace memory;
  std::vector<MemoryPart> kept;  // parameters, gradients, optimizer state: bytes at the end of the step
};

class Worker {
 public:
  // `position` is the pipeline rank, `replica` as in MeshPlace. References must outlive the worker. Every rank makes one
  // at the same time: the groups inside passes meet.
  Worker(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, int position, int replica,
         const ParameterStore& parameters, DataSource data, Transport& transport, const WorkerOptions& options);

  // Forward and backward of one step: gradients are summed into the parameters' grad(), scaled by 1 / (microbatches x replicas).
  StepResult step(std::int64_t step_index);
  // The same in two, for what is done between: run() gives the device its work and notes spans, end() waits until it has done
  // all and fills in result.spans.
  StepResult run(std::int64_t step_index);
  SpanLog& spans() { return spans_; }
  void read_losses(StepResult& result);  // waits for the device; end() does it too
  void end(StepResult& result);

  // The forward passes of a step on other data, whose microbatches count from 0 through all rounds and replicas: without dropout,
  // and leaving nothing behind. The losses' sum, as StepResult::loss_sum. The ranks must meet between rounds.
  double evaluate(std::int64_t round, const DataSource& data);

  void set_loss_scale(double scale) { options_.loss_scale = scale; }  // of the steps that follow

  // What the rank is doing, for messages of faults: "0B3 (waiting for the gradient from stage 1, rank 1)".
  std::string doing() const;

 private:
  // An entry of the order, under way.
  struct Running {
    std::size_t index = 0;
    Action action;
    Steps steps;
    std::size_t next = 0;
    SpanLog::Moment started;  // then
    std::vector<SpanLog::Interval> waits;
  };

  using Key = std::pair<int, int>;  // (stage, slice)
  Key key_of(const Action& action) const { return {action.stage, layout_.slice_index(action)}; }

  std::int64_t sample_of(const Action& action) const;
  std::shared_ptr<const SequenceSlice> slice_of(const Action& action);
  double loss_share(const Action& action);
  at::Tensor own_part(int graph_tensor, const at::Tensor& whole, int slice) const;
  Running prepare(std::size_t index);
  Steps forward(const Action& action);
  std::vector<at::Tensor> take_inputs(const Action& action, std::int64_t sample);
  Steps backward(const Action& action);
  Steps copy(const Action& action);
  bool can_weave(std::size_t first, std::size_t members) const;
  void run_cell(std::size_t first, std::size_t members);
  void run_step(Running& running);
  void begin_work(Running& running);
  void end_work(Running& running);
  void note_loss(const Action& action, const std::vector<at::Tensor>& outputs);
  void tell_loss(const Action& action, double share, double value, StepResult& result);

  const OperatorGraph& graph_;
  const Plan& plan_;
  const StageLayout& layout_;
  int position_, replica_;
  DataSource data_;
  Transport& transport_;
  WorkerOptions options_;
  SequenceShare share_;  // of the sequence, among context-parallel ranks
  int labels_;           // graph input; -1 where sequences are not cut
  Fault fault_;
  std::string doing_;
  SpanLog spans_;
  StageMessages messages_;
  DataFeed feed_;
  PassGroups groups_;
  std::unique_ptr<ParameterStore> own_parts_;  // where ranks share sequences: of what depends on positions
  std::unique_ptr<WeightCopies> copies_;       // null without autocast
  std::map<int, std::unique_ptr<SegmentedStage>> stages_;
  std::set<Key> recomputed_;                                                  // that the order has an R for
  std::map<Key, std::unique_ptr<ParkedActivations>> parked_;                  // that it offloads
  std::map<std::pair<int, int>, std::weak_ptr<AttendedSequence>> sequences_;  // by (stage, microbatch)
  std::shared_ptr<AttendedSequence::Masks> masks_ = std::make_shared<AttendedSequence::Masks>();
  std::int64_t step_ = 0;
  StepResult* result_ = nullptr;  // of the current step
  Running* running_ = nullptr;    // whose step is running

  // Losses of the current step, to be read when it is over.
  struct NotedLoss {
    Action action;
    double share;
  };
  std::vector<NotedLoss> noted_;
  at::Tensor losses_;  // on the host, one per entry of noted_
};

}  // namespace panpipe::exec
