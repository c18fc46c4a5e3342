// Replays a structure with tables of costs. Times are ticks, whole picoseconds in doubles, so sums are exact and every kernel
// gives the same bits. Nothing here allocates memory.
#pragma once

#include <cstddef>

#include "costmodel/estimate/structure.hpp"

namespace panpipe {

// Replays one plan. `costs` and `delays` are the structure's tables; `ends` receives tasks + 1 values. Returns the step time in
// ticks.
double replay(const Structure& structure, const double* costs, const double* delays, double* ends);

// Eight plans of one structure in one batch.
inline constexpr int kBatch = 8;
struct alignas(64) Eight {
  double value[kBatch];
};

// A structure prepared for batches. It keeps one value per task if these fit in the cache (half of the second level), else it
// recycles slots. The structure must outlive it.
class BatchProgram {
 public:
  enum class Values { Automatic, KeepAll, Recycle };
  explicit BatchProgram(const Structure& structure, Values values = Values::Automatic);
  std::size_t values() const { return values_; }  // the size of the array that replay needs
  bool recycles() const { return slots_.tasks > 0; }
  // costs: [cost_entries], delays: [delay_entries], values: [values()]. Returns the eight step times.
  Eight replay(const Eight* costs, const Eight* delays, Eight* values) const;

 private:
  const Structure* structure_;
  SlotProgram slots_;  // empty when every value is kept
  std::size_t values_ = 0;
};

}  // namespace panpipe
