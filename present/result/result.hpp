// Results as documents: result JSON, the table for the terminal, the Chrome/Perfetto trace.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// What differs from call to call; everything else in a result is the same bytes for the same input.
struct ResultContext {
  std::string version;
  std::string scenario;                                     // file as named
  std::vector<std::pair<std::string, std::string>> hashes;  // input file -> sha-256
  std::vector<std::pair<std::string, std::string>> libraries;
  int seed = 0;
  std::optional<std::vector<int>> unused_devices;  // of the cluster; not set: not known
  bool with_clock = true;                          // date, host and wall clock
  double wall_s = 0;
};

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, bool with_timeline);
// The table people read: step time and where it goes, memory, per-rank rows, contention (simulated). `color` for terminals.
std::string to_table(const Timeline& timeline, const Metrics& metrics, bool color);
// Chrome trace-event JSON that Perfetto opens: a process per device, a track per lane, counters for memory, flow arrows.
std::string to_trace_json(const Timeline& timeline);
// Several timelines over each other in one trace: each one's processes carry its name.
std::string to_trace_json(const std::vector<std::pair<std::string, const Timeline*>>& timelines);

}  // namespace panpipe
