#include "exec/engine/training/lagging_reports.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace panpipe::exec {

StepReport StepReport::of_all(const std::vector<std::vector<double>>& ranks) const {
  StepReport all{.step = step, .notes = notes, .epoch = epoch};
  const std::size_t count = numbers().size();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<double>& row = ranks[rank];
    PANPIPE_CHECK(row.size() == count, fmt::format("rank {} reports {} numbers of a step, not {}", rank, row.size(), count));
    all.stop |= row[0] > 0;
    all.loss_sum += row[1];
    all.squared_norm += row[2];
    all.seconds = std::max(all.seconds, row[3]);
  }
  return all;
}

std::vector<StepReport> LaggingReports::take(std::size_t pending) {
  std::vector<StepReport> taken;
  for (; posted_.size() > pending; posted_.pop_front())
    taken.push_back(
        posted_.front().mine.of_all(numbers_.wait(posted_.front().numbers, deadline_, "the reports of a step before")));
  return taken;
}

}  // namespace panpipe::exec
