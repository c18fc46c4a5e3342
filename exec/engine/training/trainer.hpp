// One rank's training: forward and backward by the worker, gradients brought together over replicas and over the holders of a
// tied parameter, and the optimizer's update.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/engine/device.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/gradients.hpp"
#include "exec/engine/training/loss_scaler.hpp"
#include "exec/engine/training/optimizer_groups.hpp"
#include "exec/engine/training/sharded_parameters.hpp"
#include "exec/engine/training/training_data.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// Where a run stands between two steps; the same on every rank. What a checkpoint keeps beside the tensors.
struct TrainingPosition {
  std::int64_t step = 0;     // steps done, warm-up and skipped ones included
  std::int64_t samples = 0;  // read from the data
  std::int64_t updates = 0;  // of the optimizer: the position on the learning rate's course
  double loss_scale = 1;
  int good_steps = 0;  // since the loss scale last changed
};

// What is told of a step besides times and loss.
struct StepNotes {
  double squared_norm = 0;  // this rank's share of the gradients' squared norm, unscaled, before clipping
  double learning_rate = 0, loss_scale = 1;
  bool skipped = false;
};

// A tensor that outlives steps, by name.
struct NamedState {
  std::string name;
  at::Tensor value;
  // Do this rank and the neighbours that hold it together write it into checkpoints? Exactly one such set does; its first rank
  // writes, what is cut over them is gathered there.
  bool writes = false;
  const Tensor* parameter = nullptr;  // how it is cut
  std::uint32_t number = 0;           // among all state of its kind, the same on every rank and ascending in a rank's state
  // Under ZeRO 2 and 3: how many elements of the (tensor-parallel) shard each member of the shard group holds, one behind
  // another. Then `value` is this rank's part, flat; all members of the first shard group write, the first of them what the
  // others send.
  std::vector<std::int64_t> lengths{};
  std::size_t member = 0;  // that this rank is
};

class Trainer {
 public:
  // Every rank makes one at the same time. `start`: where to continue.
  Trainer(const PreparedRun& run, Transport& transport, const TrainingPosition& start = {});

  // One whole step. The loss sum is this rank's; the spans hold every action, also the reductions and the optimizer.
  StepResult step(std::int64_t step_index);

  // The loss of `steps` batches of what is held out, of a step's size each: summed over this rank's microbatches. All ranks
  // together. Training goes on as if it had not been.
  double evaluate(std::int64_t steps);
  // As many batches as the scenario asks for, or as what is held out makes whole; 0: nothing is held out.
  std::int64_t evaluation_steps() const;
  // Passes over the data done, with the begun part; nothing where data have no end.
  std::optional<double> epoch() const;

  const StepNotes& notes() const { return notes_; }
  TrainingPosition position() const;

  // Parameters (fp32 masters under mixed precision) and buffers; the optimizer's state that this rank keeps.
  std::vector<NamedState> model_state() const;
  std::vector<NamedState> optimizer_state() const;
  // After values were loaded into these.
  void state_loaded(const TrainingPosition& position);

  const SeededParameters& parameters() const { return parameters_; }
  const Gradients& gradients() const { return gradients_; }
  const GroupedOptimizer& optimizer() const { return *optimizer_; }
  const Worker& worker() const { return worker_; }
  Transport& transport() const { return transport_; }
  const PreparedRun& run() const { return run_; }

 private:
  WorkerOptions worker_options(const TrainingPosition& start);
  void make_optimizer();
  void update(std::int64_t step_index, StepResult& result);
  double counted_squared_norm() const;
  int own_share(std::size_t i) const;  // which of those over which ZeRO divides the parameter this rank is
  int replica_of(int root) const;      // which of those that hold the same part of a parameter or buffer this rank is
  void apply(double factor);
  void share_updates();
  NamedState state_of(int root, std::string name, at::Tensor value, bool first, std::uint32_t number) const;

  const PreparedRun& run_;
  Transport& transport_;
  RankDevice device_;  // first made, last given back
  Clock::duration deadline_;
  MeshPlace place_;
  TrainingData data_;  // before ranks connect to each other: every rank finds by itself what is wrong with a file
  std::unique_ptr<ShardedParameters> sharded_;  // null where replicas have whole parameters and gradients
  SeededParameters parameters_;
  Gradients gradients_;
  LossScaler scaler_;
  std::unique_ptr<GroupedOptimizer> optimizer_;
  std::vector<int> owner_;            // by parameter of gradients_: which of its replicas updates it, -1 = every one
  std::vector<std::size_t> updated_;  // parameters that this rank updates
  TrainingPosition at_;
  StepNotes notes_;
  Worker worker_;
};

}  // namespace panpipe::exec
