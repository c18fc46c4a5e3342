// One rank's training: forward and backward by the worker, reduction of gradients over replicas and over the holders of a tied
// parameter, and the optimizer's update.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/engine/device.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/rank_site.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/stage/weight_versions.hpp"
#include "exec/engine/training/gradients.hpp"
#include "exec/engine/training/loss_scaler.hpp"
#include "exec/engine/training/optimizer_groups.hpp"
#include "exec/engine/training/posted_numbers.hpp"
#include "exec/engine/training/sharded_parameters.hpp"
#include "exec/engine/training/training_data.hpp"
#include "exec/engine/training/weight_slots.hpp"
#include "exec/engine/training/whole_matrices.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// A run's position between two steps, the same on every rank. Checkpoints store it in addition to the tensors.
struct TrainingPosition {
  std::int64_t step = 0;     // steps done, including warm-up and skipped ones
  std::int64_t samples = 0;  // samples read from the data
  std::int64_t updates = 0;  // of the optimizer: the position on the learning-rate curve
  double loss_scale = 1;
  int good_steps = 0;  // steps since the loss scale last changed
};

// Facts about a step in addition to times and loss.
struct StepNotes {
  double squared_norm = 0;  // this rank's share of the gradients' squared norm, unscaled, before clipping
  double learning_rate = 0, loss_scale = 1;
  bool skipped = false;
};

// A named tensor that lives longer than a step.
struct NamedState {
  std::string name;
  at::Tensor value;
  // True if this rank and the neighbours that hold it together write it into checkpoints. Exactly one such set does; its first
  // rank gathers the parts and writes.
  bool writes = false;
  const Tensor* parameter = nullptr;  // how it is divided
  std::uint32_t number = 0;           // among all state of its kind; the same on every rank, ascending within a rank's state
  // Under ZeRO 2 and 3: the numbers of consecutive elements of the (tensor-parallel) shard on each member of the shard group.
  // `value` is then this rank's part, flat. All members of the first shard group take part; the first of them writes what the
  // others send.
  std::vector<std::int64_t> lengths{};
  std::size_t member = 0;  // this rank's index
  int ranks_of_rows = 1;   // so many ranks of a pipeline each hold as many rows; all of a replica take part, the first one writes

  at::Tensor on_host() const { return exec::on_host(value); }
};

class Trainer {
 public:
  // All ranks construct it at the same time. `start`: position to continue from.
  Trainer(const PreparedRun& run, Transport& transport, const TrainingPosition& start = {});

  // One complete step. The loss sum is this rank's; the spans contain every action, including reductions and the optimizer.
  // `drains`: of a schedule without a flush, no forward of the next step has run afterwards.
  StepResult step(std::int64_t step_index, bool drains = true);

  // The loss of `steps` held-out batches of a step's size, summed over this rank's microbatches. All ranks call this together. It
  // does not affect the training.
  double evaluate(std::int64_t steps);
  // Number of batches that the scenario requests, or that the held-out data fill; 0: no data are held out.
  std::int64_t evaluation_steps() const;
  // Passes over the data so far, including the started part; nullopt for endless data.
  std::optional<double> epoch() const;

  // Of the last step. Where updates are checked later (schedule/rolling.hpp), whether it was skipped is known after the next
  // one's first forwards, or when the pipeline has drained; skipped_before() is of the step before the last.
  const StepNotes& notes() const { return notes_; }
  bool skipped_before() const { return skipped_before_; }
  TrainingPosition position() const;

  // Parameters (fp32 masters under mixed precision) and buffers; the part of the optimizer's state on this rank.
  // Without a flush the optimizer's state has the weights before the last update too.
  std::vector<NamedState> model_state() const;
  std::vector<NamedState> optimizer_state() const;
  // Call it after values were loaded into these.
  void state_loaded(const TrainingPosition& position);

  const SeededParameters& parameters() const { return parameters_; }
  const Gradients& gradients() const { return gradients_; }
  Transport& transport() const { return site_.transport; }
  const PreparedRun& run() const { return run_; }

 private:
  WorkerOptions worker_options(const TrainingPosition& start);
  void make_optimizer();
  void update(StepRun& run);
  int own_share(std::size_t i) const;  // this rank's index among those over which ZeRO divides the parameter
  // An update that was made before all ranks knew the norm.
  struct Unchecked {
    std::int64_t step = 0;
    double scale = 1;
    PostedNumbers::Posted norms{};
    std::vector<at::Tensor> changed{}, before{};  // what it changes, and copies from before
  };
  bool decides() const;
  double clipping_of(double total, double scale, std::int64_t step_index, bool& skipped);
  std::vector<at::Tensor> changed_by_update() const;
  bool update_stands();
  void begin_step();
  void apply(double factor);
  void share_updates();
  int owner_of(int root) const;
  // Names of its state in the optimizer.
  std::vector<std::string> kinds_of(int root) const {
    return state_names(run_.experiment.scenario.optimizer, settings_.at(root));
  }
  NamedState state_of(int root, const std::string& kind, at::Tensor value, std::size_t number) const;

  const PreparedRun& run_;
  RankDevice device_;  // constructed first, destroyed last
  RankSite site_;
  TrainingData data_;  // before ranks connect to each other, so that every rank finds faults of a file by itself
  std::unique_ptr<ShardedParameters> sharded_;  // nullptr if replicas hold whole parameters and gradients
  std::unique_ptr<WeightSlots> slots_;          // nullptr if weights stay on the device
  SeededParameters parameters_;
  Gradients gradients_;
  std::unique_ptr<WeightVersions> versions_;  // nullptr if passes run with the latest weights
  LossScaler scaler_;
  std::unique_ptr<WholeMatrices> matrices_;   // nullptr where the optimizer steps none
  std::map<int, ParameterNumbers> settings_;  // of trained parameters, by root
  std::unique_ptr<Optimizer> optimizer_;
  std::map<int, bool> first_here_;    // by root: the first of the stages that use it is of this position
  std::vector<int> owner_;            // per parameter of gradients_: index of the replica that updates it, -1 = all
  std::vector<std::size_t> updated_;  // parameters that this rank updates
  TrainingPosition at_;
  StepNotes notes_;
  bool skipped_before_ = false;
  std::unique_ptr<PostedNumbers> numbers_;  // nullptr if ranks wait for each other's norms
  std::optional<Unchecked> unchecked_;
  Worker worker_;
};

}  // namespace panpipe::exec
