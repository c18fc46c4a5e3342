// What a run tells while it trains: a line of JSON per step into a file, a line for people on standard error.
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
  std::optional<double> epoch;            // passes over the data, behind the step; none of data without end
  std::optional<double> validation_loss;  // where the step is followed by an evaluation
};

class MetricsLog {
 public:
  // On rank 0. `steps_done` > 0: the run continues one that wrote the file, whose lines of later steps go. MachineError when it
  // cannot be written.
  MetricsLog(const PreparedRun& run, std::int64_t steps_done);
  void write(const StepMetrics& metrics);

 private:
  const PreparedRun& run_;
  std::ofstream file_;
  double samples_ = 0, tokens_ = 0;  // per step; 0 tokens: the model reads none
};

}  // namespace panpipe::exec
