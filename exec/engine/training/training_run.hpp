// A run between its steps: resuming, stopping, checkpoints, and logging.
#pragma once

#include <memory>
#include <vector>

#include "exec/engine/training/lagging_reports.hpp"
#include "exec/engine/training/metrics_log.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

// Throws InputError for a precision that the graph does not support, or contradictory checkpoint options.
void check_training(const PreparedRun& run);

class TrainingRun {
 public:
  // All ranks construct it at the same time. Reads the checkpoint to resume from.
  TrainingRun(const PreparedRun& run, Transport& transport);

  // All ranks call this before each step, and start the step together when it returns true. Writes checkpoints that are due.
  // Returns false when all steps are done. Throws Stopped on every rank if any rank was asked to stop.
  bool next();
  StepResult step();
  // True if the last step is a measured one.
  bool measured() const { return step_ > run_.request.warmup; }

  const Trainer& trainer() const { return *trainer_; }

 private:
  bool synchronise();
  bool ends_after(std::int64_t step) const;
  StepReport own_report() const;
  void take_reports(std::size_t pending);
  void evaluate();
  std::string checkpoint();
  void report_start(const std::string& folder, bool some_passed_over) const;
  void report();

  const PreparedRun& run_;
  Transport& transport_;
  Clock::duration deadline_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<MetricsLog> log_;     // rank 0
  std::int64_t step_ = 0;               // steps done, since the very first
  std::int64_t last_checkpoint_ = -1;   // step
  double loss_sum_ = 0, seconds_ = 0;   // this rank's, of the last step
  bool stepped_ = false;                // in this process
  std::vector<StepReport> unreported_;  // rank 0
  // Without a flush between steps: what replaces the ranks' meeting between two steps.
  std::unique_ptr<LaggingReports> reports_;
  bool idle_ = true;         // no pass of the next step has run
  bool stop_ = false;        // all ranks know that some rank wants to stop
  Clock::time_point ended_;  // the last step
};

}  // namespace panpipe::exec
