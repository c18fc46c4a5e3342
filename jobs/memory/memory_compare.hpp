// Measured memory next to a prediction, by part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "jobs/memory/measured_memory.hpp"

namespace panpipe::jobs {

// Of one device of a predicted step. Bytes.
struct PredictedMemory {
  int device = 0;
  double allocated = 0, reserved = 0;
  std::vector<MemoryPart> parts;  // at its peak
};

struct MemoryRow {
  std::string part;
  std::optional<double> measured, predicted;
  bool total = false;  // allocated, reserved

  double difference() const { return *measured - *predicted; }
  bool is_compared() const { return measured && predicted; }
};

// What differs by so much of the prediction is named first.
constexpr double kNamedDifference = 0.3;

// The totals, then the parts, where frames show them: parameters, optimizer, gradients, activations and temporaries (as one part
// where the backward has no frames), and what no frame explains. `predicted` may be null.
std::vector<MemoryRow> memory_rows(const MeasuredMemory& measured, const PredictedMemory* predicted);

// Rows that differ by more than 30 % of the prediction and by more than 1 % of what is allocated, the largest difference first.
std::vector<MemoryRow> named_rows(const std::vector<MemoryRow>& rows);

// For people, and as a document (docs/file-formats.md, panpipe-memory/1).
std::string memory_table(const MeasuredMemory& measured, const PredictedMemory* predicted);
std::string memory_json(const MeasuredMemory& measured, const PredictedMemory* predicted);

}  // namespace panpipe::jobs
