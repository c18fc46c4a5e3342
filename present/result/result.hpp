// Results as documents: result JSON, the table for the terminal, the Chrome/Perfetto trace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/prediction/blame.hpp"
#include "costmodel/prediction/memory_hints.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe::present {

// The facts that differ from call to call. Everything else in a result is byte-identical for the same input.
struct ResultContext {
  std::string version;
  std::string scenario;                                     // the file as the user named it
  std::vector<std::pair<std::string, std::string>> hashes;  // input file -> sha-256
  std::vector<std::pair<std::string, std::string>> libraries;
  int seed = 0;
  std::optional<std::vector<int>> unused_devices;  // of the cluster; nullopt: unknown
  std::vector<std::string> assumed;                // assumptions_of the workload
  std::shared_ptr<const Trainer> trainer;          // of the scenario; null: none is stated
  std::vector<std::string> cautions;               // plan_cautions of the plan
  std::vector<Blame> blame;                        // of a prediction: of slow devices and degraded links
  std::vector<MemoryHint> memory_hints;            // of a prediction
  bool with_clock = true;                          // write date, host and wall clock
  double wall_s = 0;
};

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, bool with_timeline);
// The table for people: step time and its parts, memory, per-rank rows, contention (simulated). `color` for terminals.
std::string to_table(const Timeline& timeline, const Metrics& metrics, bool color);
// Chrome trace-event JSON, which Perfetto opens: one process per device, one track per lane, counters for memory, flow arrows.
std::string to_trace_json(const Timeline& timeline);
// Several timelines in one trace; the processes of each carry its name.
std::string to_trace_json(const std::vector<std::pair<std::string, const Timeline*>>& timelines);

}  // namespace panpipe::present
