// A run's log while it trains: a line of JSON per step in a file, and a line for people on standard error.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "exec/engine/run/run.hpp"

namespace panpipe::exec {

struct StepMetrics {
  std::int64_t step = 0;  // counted from 1
  bool warmup = false;
  double loss = 0;           // mean over microbatches and replicas
  double gradient_norm = 0;  // of the averaged, unscaled gradients, before clipping; negative: not computed
  double step_time_s = 0;
  double learning_rate = 0, loss_scale = 1;
  bool skipped = false;
  std::optional<double> epoch;            // passes over the data, after the step; nullopt for endless data
  std::optional<double> validation_loss;  // if an evaluation follows the step
};

class MetricsLog {
 public:
  // Rank 0 only. `steps_done` > 0: the run continues the one that wrote the file, and lines of later steps are removed. Throws
  // MachineError if the file cannot be written.
  MetricsLog(const PreparedRun& run, std::int64_t steps_done);
  void write(const StepMetrics& metrics);

 private:
  const PreparedRun& run_;
  std::ofstream file_;
  double samples_ = 0, tokens_ = 0;  // per step; 0 tokens: the model reads none
};

}  // namespace panpipe::exec
