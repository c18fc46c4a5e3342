#include "exec/engine/training/posted_numbers.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

namespace panpipe::exec {

PostedNumbers::PostedNumbers(Transport& transport) : transport_(transport) {
  std::vector<int> all(static_cast<std::size_t>(transport.size()));
  std::iota(all.begin(), all.end(), 0);
  if (all.size() > 1) all_ = transport.make_group(all);
}

// A sum in which every number is zero on all ranks but one is exact.
PostedNumbers::Posted PostedNumbers::post(const std::vector<double>& mine) const {
  Posted posted{at::zeros({transport_.size(), std::ssize(mine)}, at::kDouble)};
  std::copy(mine.begin(), mine.end(), posted.values.data_ptr<double>() + transport_.rank() * std::ssize(mine));
  if (transport_.size() > 1) posted.pending = transport_.all_reduce(posted.values, all_);
  return posted;
}

std::vector<std::vector<double>> PostedNumbers::wait(const Posted& posted, Clock::duration deadline,
                                                     const std::string& what) const {
  if (posted.pending) posted.pending->wait(deadline, what);
  std::vector<std::vector<double>> rows;
  const std::int64_t numbers = posted.values.size(1);
  for (std::int64_t rank = 0; rank < posted.values.size(0); ++rank) {
    const double* const row = posted.values.data_ptr<double>() + rank * numbers;
    rows.emplace_back(row, row + numbers);
  }
  return rows;
}

}  // namespace panpipe::exec
