// What ranks report of a step while they run the next one, so that none waits for the others between steps.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "exec/engine/training/posted_numbers.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

class LaggingReports {
 public:
  // All ranks construct it at the same time.
  LaggingReports(Transport& transport, Clock::duration deadline);

  struct Mine {
    bool stop = false;  // this rank was asked to stop
    double loss_sum = 0, squared_norm = 0, seconds = 0;
  };
  struct Whole {
    std::int64_t step = 0;                               // steps done with it
    bool stop = false;                                   // some rank was
    double loss_sum = 0, squared_norm = 0, seconds = 0;  // sums, and the longest time
    StepNotes notes;
    std::optional<double> epoch;
  };
  // All ranks, after the same steps.
  void post(std::int64_t step, const Mine& mine, const StepNotes& notes, std::optional<double> epoch);
  // Of the last posted step, if it was found out later.
  void set_skipped(bool skipped) { posted_.back().whole.notes.skipped = skipped; }
  // Oldest first; waits for them until at most `pending` are left.
  std::vector<Whole> take(std::size_t pending);

 private:
  struct Posted {
    Whole whole;
    PostedNumbers::Posted numbers;
  };
  PostedNumbers numbers_;
  Clock::duration deadline_;
  std::deque<Posted> posted_;
};

}  // namespace panpipe::exec
