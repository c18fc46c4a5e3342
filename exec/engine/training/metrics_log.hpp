// A run's log while it trains: a line of JSON per step in a file, and a line for people on standard error.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "exec/engine/run/run.hpp"
#include "exec/engine/training/lagging_reports.hpp"

namespace panpipe::exec {

class MetricsLog {
 public:
  // Rank 0 only. `steps_done` > 0: the run continues the one that wrote the file, and lines of later steps are removed. Throws
  // MachineError if the file cannot be written.
  MetricsLog(const PreparedRun& run, std::int64_t steps_done);
  void write(const StepReport& step);  // of all ranks

 private:
  const PreparedRun& run_;
  std::ofstream file_;
  double samples_ = 0, tokens_ = 0;  // per step; 0 tokens: the model reads none
};

}  // namespace panpipe::exec
