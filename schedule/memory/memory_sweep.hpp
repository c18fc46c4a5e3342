// Bubble against memory: a searched family at one memory limit after another (`panpipe schedule NAME --memory-sweep`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct MemoryPoint {
  int memory = 0;  // activations a rank may hold
  int held = 0;    // what the order found holds, at most
  double makespan = 0, span = 0;
  double bubble_step = 0, bubble_span = 0;
  double lower_bound = 0;  // of the makespan within this memory
  double least_bubble() const { return makespan > 0 ? 1 - (1 - bubble_step) * makespan / lower_bound : 0; }
};

struct MemorySweep {
  std::string name;
  int ranks = 0, microbatches = 0;
  PassCosts costs;
  std::vector<MemoryPoint> points;  // memory ascending; the makespan never rises, as an order stays one with more memory
  // Hand-made orders of the same stages under the same costs, for comparison.
  std::vector<std::pair<std::string, MemoryPoint>> hand_made;
};

// From the least memory with which a step can finish to a little beyond what ends all waiting for memory; at most 33 points.
// InputError when the family is not searched.
MemorySweep sweep_memory(std::string_view family, int ranks, int microbatches, const PassCosts& costs);

std::string to_text(const MemorySweep& sweep);
std::string to_json(const MemorySweep& sweep);  // panpipe-memory-sweep/1
std::string to_svg(const MemorySweep& sweep);

}  // namespace panpipe
