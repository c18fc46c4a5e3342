// One rank's training: forward and backward by the worker, gradients brought together over replicas and over the holders of a
// tied parameter, and the optimizer's update.
#pragma once

#include <memory>

#include "exec/engine/parameters.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

class Trainer {
 public:
  Trainer(const PreparedRun& run, Transport& transport);

  // One whole step. The loss sum is this rank's; the spans hold every action, also the reductions and the optimizer.
  StepResult step(std::int64_t step_index);

  const SeededParameters& parameters() const { return parameters_; }
  const Worker& worker() const { return worker_; }

 private:
  void make_groups();
  void reduce_gradients();

  const PreparedRun& run_;
  Transport& transport_;
  int position_, replica_;
  SeededParameters parameters_;
  Worker worker_;
  std::vector<std::pair<int, Group>> groups_;  // parameter (root) and who sums its gradient, in graph order
};

}  // namespace panpipe::exec
