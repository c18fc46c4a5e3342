// One rank of a run: executes its actions of the schedule, step by step.
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
#include "exec/engine/microbatch_lengths.hpp"
#include "exec/engine/slices/attended_sequence.hpp"
#include "exec/engine/slices/attention_partner.hpp"
#include "exec/engine/stage/activation_offload.hpp"
#include "exec/engine/stage/segmented_stage.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/stage/weight_versions.hpp"
#include "exec/engine/stage_layout.hpp"
#include "exec/engine/stage_messages.hpp"
#include "exec/engine/step_row.hpp"
#include "exec/engine/transport/transport.hpp"
#include "exec/engine/vocabulary_parts.hpp"

namespace panpipe::exec {

// Data of one microbatch, whole even if its sequence is cut into slices: the value of a graph input. `sample` counts microbatches
// over steps and replicas.
using DataSource = std::function<at::Tensor(int graph_input, std::int64_t sample)>;

struct WorkerOptions {
  std::uint64_t seed = 0;
  at::Device device = at::kCPU;                         // the rank's device
  Clock::duration deadline = std::chrono::seconds(10);  // longest wait for a peer
  int receives_ahead = 4;                               // number of actions whose receives are posted before their turn
  std::int64_t first_sample = 0;                        // added to the count of microbatches, to start later in the data
  std::optional<at::ScalarType> autocast{};             // mixed precision of an fp32 graph
  // Called around each entry of the rank's order. on_loss is called with each microbatch's loss in the order of the passes, on a
  // GPU at the end of the step.
  std::function<void(std::size_t)> before_action{}, after_action{};
  std::function<void(int, double)> on_loss{};
  std::function<void(int)> before_evaluated{};  // a stage, before each of its forwards in an evaluation
  // Called before the first entry of a step that may not run before all ranks know whether the last update stands. False: it was
  // taken back, on all ranks, and the forwards so far run again.
  std::function<bool()> update_stands{};
  ParameterGate* gate = nullptr;             // null if parameters are always whole
  const WeightVersions* versions = nullptr;  // null if every step ends with a flush
  std::vector<MicrobatchLength> lengths{};   // of the plan's; empty if all microbatches are alike
  std::vector<int> listed{};                 // as listed_microbatches() gives them; empty: in order
  double loss_scale = 1.0;                   // multiplies the loss's gradient; the optimizer divides
  SliceExchange exchange{};                  // of attention between ranks; empty: none
};

struct StepResult {
  double loss_sum =
      0;  // over this rank's loss microbatches; 0 on ranks without the loss stage, and on all shards except the first
  // Device and peer are world ranks; times count from `started`. The flow id of a transfer is its message's tag, the same on both
  // sides. A send ends here when its message was sent, and a receive starts when it was posted; gathering joins the two. Woven
  // passes overlap on the compute lane, each from its first step to its last.
  std::vector<Span> spans;
  Clock::time_point started;
  MemoryAccount::Trace memory;
  std::vector<MemoryPart> kept;  // parameters, gradients, optimizer state: bytes at the end of the step
};

class Worker {
 public:
  // `position` is the pipeline rank, `replica` as in MeshPlace. References must outlive the worker. All ranks construct it at the
  // same time, because the groups inside passes are created.
  Worker(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, int position, int replica,
         const ParameterStore& parameters, DataSource data, Transport& transport, const WorkerOptions& options);

  // Forward and backward of one step. Gradients are summed into the parameters' grad(), scaled by 1 / (microbatches x replicas).
  StepResult step(std::int64_t step_index);
  // step() in two parts, with room for work in between. run() queues the device's work and records spans; end() waits until the
  // device is done and fills in result.spans. Of a schedule without a flush, forwards of the next step run too unless it
  // `drains`.
  StepResult run(std::int64_t step_index, bool drains = true);
  SpanLog& spans() { return spans_; }
  void read_losses(StepResult& result);  // waits for the device; end() calls it, too
  void end(StepResult& result);

  // Runs the forward passes of a step on other data, whose microbatches count from 0 over all rounds and replicas, without
  // dropout and without side effects. Returns the sum of losses, like StepResult::loss_sum. The ranks must synchronise between
  // rounds.
  double evaluate(std::int64_t round, const DataSource& data);

  void set_loss_scale(double scale) { options_.loss_scale = scale; }  // for the following steps

 private:
  // A running entry of the order.
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

  int length_of(const Action& action) const;
  const OperatorGraph& graph_of(const Action& action) const;
  SegmentedStage& stage_of(const Action& action) { return *stages_.at({action.stage, length_of(action)}); }
  void make_stage(int stage, const ParameterStore& parameters);
  CallContext context_of(const Action& action, std::int64_t draws, std::shared_ptr<const SequenceSlice> slice) const;
  double loss_weight(const Action& action) const;
  std::int64_t sample_of(const Action& action) const;
  int microbatch_of_step(const Action& action) const;
  std::shared_ptr<const SequenceSlice> slice_of(const Action& action, std::shared_ptr<AttentionPartners> partners = nullptr);
  double loss_share(const Action& action);
  at::Tensor own_part(int graph_tensor, const at::Tensor& whole, int slice) const;
  Running prepare(std::size_t index);
  Steps forward(const Action& action);
  std::vector<at::Tensor> take_inputs(const Action& action, std::int64_t sample);
  Steps backward(const Action& action);
  Steps copy(const Action& action);
  std::unique_ptr<VocabularyParts> vocabulary_of(const ParameterStore& parameters);
  // The vocabulary's exchanges with the first stage and with the last; nullptr for other stages.
  VocabularyParts* before_first(const Action& action) const;
  VocabularyParts* behind_last(const Action& action) const;
  bool can_weave(std::size_t first, std::size_t members) const;
  void run_cell(std::size_t first, std::size_t members);
  void forget_forwards(StepResult& result);
  void run_step(Running& running);
  void begin_work(Running& running);
  void end_work(Running& running);
  void note_loss(const Action& action, double share, const at::Tensor& value);
  void report_loss(const Action& action, double share, double value, StepResult& result);

  const OperatorGraph& graph_;
  const Plan& plan_;
  const StageLayout& layout_;
  int position_, replica_;
  DataSource data_;
  Transport& transport_;
  WorkerOptions options_;
  SequenceShare share_;  // of the sequence, among context-parallel ranks
  int labels_;           // graph input; -1 if sequences are not cut
  Fault fault_;
  std::string action_;  // the current one, for error messages: "0B3, waiting for the gradient of microbatch 3 from stage 1"
  std::function<void()> before_reading_;
  SpanLog spans_;
  StageMessages messages_;
  DataFeed feed_;
  PassGroups groups_;
  std::unique_ptr<ParameterStore> own_parts_;               // if ranks share sequences: of position-dependent tensors
  std::unique_ptr<WeightCopies> copies_;                    // nullptr without autocast
  std::vector<std::unique_ptr<ParameterStore>> of_length_;  // per length but the first
  std::map<std::pair<int, int>, std::unique_ptr<SegmentedStage>> stages_;  // by (stage, length)
  std::unique_ptr<VocabularyParts> vocabulary_;                            // nullptr: stages hold it whole
  // The row of the current step, and the place of each entry in the plan's. Where passes of two steps are under way, microbatches
  // of odd steps are numbered behind those of even ones.
  StepRow row_;
  std::vector<std::size_t> ahead_;                                            // forwards_ahead(), if updates may be taken back
  bool idle_ = true;                                                          // no pass of the next step has run
  std::set<Key> recomputed_;                                                  // those with an R in the order
  std::map<Key, std::unique_ptr<ParkedActivations>> parked_;                  // those that the order offloads
  std::map<std::pair<int, int>, std::weak_ptr<AttendedSequence>> sequences_;  // by (stage, microbatch)
  std::shared_ptr<AttendedSequence::Masks> masks_ = std::make_shared<AttendedSequence::Masks>();
  std::int64_t step_ = 0;
  std::vector<SpanLog::Interval> partner_waits_;  // of the step of a pass that runs, for ranks that share its attention
  StepResult* result_ = nullptr;                  // of the current step
  Running* running_ = nullptr;                    // the one whose step is running

  // Losses of the current step, read when it is over.
  struct NotedLoss {
    Action action;
    double share;
  };
  std::vector<NotedLoss> noted_;
  at::Tensor losses_;  // on the host, one per entry of noted_
};

}  // namespace panpipe::exec
