// Bubble as a function of memory: sweeps a searched family over memory limits (`panpipe schedule NAME --memory-sweep`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct MemoryPoint {
  int memory = 0;  // limit: activations a rank may hold
  int held = 0;    // activations that the found order holds, at most
  double makespan = 0, span = 0;
  double bubble_step = 0, bubble_span = 0;
  double lower_bound = 0;  // bound on the makespan under this limit
  double least_bubble() const { return makespan > 0 ? 1 - (1 - bubble_step) * makespan / lower_bound : 0; }
};

struct MemorySweep {
  std::string name;
  int ranks = 0, microbatches = 0;
  PassCosts costs;
  std::vector<MemoryPoint> points;  // memory ascending; the makespan never rises, because an order stays valid with more memory
  // Published orders of the same stages under the same costs, for comparison.
  std::vector<std::pair<std::string, MemoryPoint>> hand_made;
};

// Sweeps from the least memory with which a step can finish to just beyond the point where no rank waits for memory, in at most
// 33 points. Throws InputError if the family is not searched.
MemorySweep sweep_memory(std::string_view family, int ranks, int microbatches, const PassCosts& costs);

std::string to_text(const MemorySweep& sweep);
std::string to_json(const MemorySweep& sweep);  // panpipe-memory-sweep/1
std::string to_svg(const MemorySweep& sweep);

}  // namespace panpipe
