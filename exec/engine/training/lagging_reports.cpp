#include "exec/engine/training/lagging_reports.hpp"

#include <algorithm>

namespace panpipe::exec {

LaggingReports::LaggingReports(Transport& transport, Clock::duration deadline) : numbers_(transport), deadline_(deadline) {}

void LaggingReports::post(std::int64_t step, const Mine& mine, const StepNotes& notes, std::optional<double> epoch) {
  Posted posted;
  posted.whole.step = step;
  posted.whole.notes = notes;
  posted.whole.epoch = epoch;
  posted.numbers = numbers_.post({mine.stop ? 1.0 : 0.0, mine.loss_sum, mine.squared_norm, mine.seconds});
  posted_.push_back(std::move(posted));
}

std::vector<LaggingReports::Whole> LaggingReports::take(std::size_t pending) {
  std::vector<Whole> taken;
  while (posted_.size() > pending) {
    Whole whole = posted_.front().whole;
    for (const std::vector<double>& row : numbers_.wait(posted_.front().numbers, deadline_, "the reports of a step before")) {
      whole.stop |= row[0] > 0;
      whole.loss_sum += row[1];
      whole.squared_norm += row[2];
      whole.seconds = std::max(whole.seconds, row[3]);
    }
    posted_.pop_front();
    taken.push_back(std::move(whole));
  }
  return taken;
}

}  // namespace panpipe::exec
