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

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/around_actions.hpp"
#include "exec/engine/context/sequence_share.hpp"
#include "exec/engine/data_feed.hpp"
#include "exec/engine/fault.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/microbatch_lengths.hpp"
#include "exec/engine/rank_site.hpp"
#include "exec/engine/slices/attended_sequence.hpp"
#include "exec/engine/slices/attention_partner.hpp"
#include "exec/engine/stage/activation_offload.hpp"
#include "exec/engine/stage/segmented_stage.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/stage/weight_versions.hpp"
#include "exec/engine/stage_messages.hpp"
#include "exec/engine/step_row.hpp"
#include "exec/engine/vocabulary_parts.hpp"

namespace panpipe::exec {

// Data of one microbatch, whole even if its sequence is cut into slices: the value of a graph input. `sample` counts microbatches
// over steps and replicas.
using DataSource = std::function<at::Tensor(int graph_input, std::int64_t sample)>;

struct WorkerOptions {
  std::uint64_t seed = 0;
  std::int64_t first_sample = 0;             // added to the count of microbatches, to start later in the data
  std::optional<at::ScalarType> autocast{};  // mixed precision of an fp32 graph
  std::vector<AroundActions*> around{};      // the first is called first before an entry, and last after it
  bool finite_losses = false;                // a step's loss that is no finite number ends the run
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

// A step under way, or a round of an evaluation: what its passes share. The worker has none of it, so that an evaluation that
// fails leaves the data and the count of samples as they were.
struct StepRun {
  std::int64_t step = 0;  // or the round
  bool evaluates = false;
  bool drains = true;
  bool provisional = false;  // its forwards may have to run again
  const DataSource* data = nullptr;
  std::int64_t first_sample = 0;
  StepRow row{};
  std::size_t next = 0;  // entry of the row
  StepResult result{};
  // Losses on their way from a GPU, in the order of Worker::losses_.
  struct NotedLoss {
    Action action;
    double share;
  };
  std::vector<NotedLoss> noted{};
  std::optional<std::pair<int, double>> refused{};  // microbatch and value, of a provisional forward's loss that is not finite
  // Of slices: by (stage, microbatch). An evaluation keeps the slices, to which later ones attend; else their stages do.
  std::map<std::pair<int, int>, std::weak_ptr<AttendedSequence>> sequences{};
  std::vector<std::shared_ptr<const SequenceSlice>> slices{};
  std::shared_ptr<AttendedSequence::Masks> masks = std::make_shared<AttendedSequence::Masks>();
};

class Worker {
 public:
  // References must outlive the worker. All ranks construct it at the same time, because the groups inside passes are created.
  Worker(RankSite& site, const ParameterStore& parameters, DataSource data, WorkerOptions options);

  // Forward and backward of one step. Gradients are summed into the parameters' grad(), scaled by 1 / (microbatches x replicas).
  StepResult step(std::int64_t step_index);

  // step() in parts, with room for work in between: begin() runs nothing yet, run() queues the device's work and records spans,
  // end() waits until the device is done. Of a schedule without a flush, forwards of the next step run too unless it `drains`.
  // Throws NoAnswer for a loss that finite_losses refuses.
  StepRun begin(std::int64_t step_index, bool drains = true);
  // Where updates are checked later (schedule/rolling.hpp), before run(): the forwards that may run before all ranks know whether
  // the last update stands; and if it was taken back, on all ranks: they will run again.
  void run_ahead(StepRun& run);
  void forget_forwards(StepRun& run);
  void run(StepRun& run);
  void read_losses(StepRun& run);  // waits for the device; end() calls it, too
  StepResult end(StepRun& run);

  // Runs the forward passes of a step on other data, whose microbatches count from 0 over all rounds and replicas, without
  // dropout and without side effects. Returns the sum of losses, like StepResult::loss_sum. The ranks must synchronise between
  // rounds.
  double evaluate(std::int64_t round, const DataSource& data);

  void set_loss_scale(double scale) { options_.loss_scale = scale; }  // for the following steps

 private:
  // A running entry of the order.
  struct Pass {
    Action action;
    Steps steps{};
    std::size_t next = 0;
    Values values{};            // what the first step reads; what the last step made
    SpanLog::Moment started{};  // when what it reads was there
    std::vector<SpanLog::Interval> waits{};
  };

  using Key = std::pair<int, int>;  // (stage, slice)
  Key key_of(const Action& action) const { return {action.stage, site_.layout.slice_index(action)}; }

  // Making (worker.cpp).
  void make_stage(int stage, const ParameterStore& parameters);
  int length_of(const Action& action) const;
  SegmentedStage& stage_of(const Action& action) { return *stages_.at({action.stage, length_of(action)}); }

  // The loop over a row (worker.cpp).
  void start(StepRun& run, const char* what);
  void run_until(StepRun& run, std::size_t end);
  bool can_weave(const StepRow& row, std::size_t first, std::size_t members) const;
  void run_cell(StepRun& run, std::size_t first, std::size_t members);
  void run_step(StepRun& run, Pass& pass);

  // A pass (worker_passes.cpp): its steps, what it reads, and what it leaves.
  Pass prepare(StepRun& run, const Action& action);
  void begin_pass(StepRun& run, Pass& pass);
  void end_pass(StepRun& run, Pass& pass);
  void copy(const Action& action);
  bool runs_forward(const Action& action) const;
  CallContext context_of(StepRun& run, const Action& action);
  std::int64_t sample_of(const StepRun& run, const Action& action) const;
  at::Tensor own_part(int graph_tensor, const at::Tensor& whole, int slice) const;
  double loss_share(const StepRun& run, const Action& action) const;
  void note_loss(StepRun& run, const Action& action, double share, const at::Tensor& value);
  void report_loss(StepRun& run, const Action& action, double share, double value);
  [[noreturn]] void refuse_loss(const StepRun& run, int microbatch, double loss) const;
  void take_vocabulary_losses(StepRun& run);

  RankSite& site_;
  DataSource data_;
  WorkerOptions options_;
  SequenceShare share_;  // of the sequence, among context-parallel ranks
  int labels_;           // graph input; -1 if sequences are not cut
  Fault fault_;
  std::function<void()> before_reading_;
  StageMessages messages_;
  DataFeed feed_;
  PassGroups groups_;
  std::unique_ptr<ParameterStore> own_parts_;               // if ranks share sequences: of position-dependent tensors
  std::unique_ptr<WeightCopies> copies_;                    // nullptr without autocast
  std::vector<std::unique_ptr<ParameterStore>> of_length_;  // per length
  std::map<std::pair<int, int>, std::unique_ptr<SegmentedStage>> stages_;  // by (stage, length)
  std::unique_ptr<VocabularyParts> vocabulary_;                            // nullptr: stages hold it whole
  std::vector<std::size_t> ahead_;                                         // forwards_ahead(), if updates may be taken back
  bool idle_ = true;                                                       // no pass of the next step has run
  std::set<Key> recomputed_;                                               // those with an R in the order
  std::map<Key, std::unique_ptr<ParkedActivations>> parked_;               // those that the order offloads
  at::Tensor losses_;                                                      // on the host, of a step on a GPU
};

}  // namespace panpipe::exec
