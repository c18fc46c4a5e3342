// What ranks report of a step: between two steps, or while they run the next one, so that none waits for the others.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "exec/engine/training/posted_numbers.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

struct StepReport {
  std::int64_t step = 0;                               // steps done with it
  bool stop = false;                                   // this rank was asked to stop; of all: some rank was
  double loss_sum = 0, squared_norm = 0, seconds = 0;  // of all: sums, and the longest time
  StepNotes notes{};
  std::optional<double> epoch{};            // passes over the data, after the step; nullopt for endless data
  std::optional<double> validation_loss{};  // if an evaluation follows the step

  std::vector<double> numbers() const { return {stop ? 1.0 : 0.0, loss_sum, squared_norm, seconds}; }
  // The report of all, from the numbers of each rank. Throws InternalError if a rank has more of them, or fewer.
  StepReport of_all(const std::vector<std::vector<double>>& ranks) const;
};

class LaggingReports {
 public:
  // All ranks construct it at the same time.
  LaggingReports(Transport& transport, Clock::duration deadline) : numbers_(transport), deadline_(deadline) {}

  // All ranks, after the same steps.
  void post(const StepReport& mine) { posted_.push_back({mine, numbers_.post(mine.numbers())}); }
  // Of the last posted step, if it was found out later.
  void set_skipped(bool skipped) { posted_.back().mine.notes.skipped = skipped; }
  // Of all ranks, oldest first; waits for them until at most `pending` are left.
  std::vector<StepReport> take(std::size_t pending);

 private:
  struct Posted {
    StepReport mine;
    PostedNumbers::Posted numbers;
  };
  PostedNumbers numbers_;
  Clock::duration deadline_;
  std::deque<Posted> posted_;
};

}  // namespace panpipe::exec
