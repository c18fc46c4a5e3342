// Every figure of a step, declared once: its name, unit, place in the structs and documents that contain it. Code that writes,
// reads, sweeps, lists or compares figures uses this table. Definitions: docs/models/metrics.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

class JsonWriter;

enum class MetricUnit : std::uint8_t { Second, Byte, Share, Truth, Flop, PerSecond, Count, Hour, Money, Energy, Mass };

// The results that contain a metric. `Runs`: predictions of a scenario that states a run, if the figure is known. A result
// contains the terms of the share of memory; the share itself appears only in a plan's answer.
enum class MetricIn : std::uint8_t { EveryResult, Predictions, Simulations, Measurements, Runs, NoResult };

// The summaries that contain a metric: cells of a sweep, and candidates of a plan's answer.
enum class MetricSummary : std::uint8_t { None, Cell, Candidate, Both };

struct Metric {
  std::string_view name;
  MetricUnit unit{};
  double (*of_step)(const Metrics&) = nullptr;  // true and false are 1 and 0
  double (*of_device)(const DeviceMetrics&) = nullptr;
  void (*set_of_device)(DeviceMetrics&, double) = nullptr;  // both null: only for the whole step
  MetricIn in = MetricIn::EveryResult;

  bool (*is_known)(const Metrics&) = nullptr;  // null: always known
  MetricSummary summary = MetricSummary::None;

  bool per_device() const { return of_device != nullptr; }
  bool is_in_result_of(TimelineKind kind) const;
  bool is_in(const Metrics& metrics, TimelineKind kind) const {
    return is_in_result_of(kind) && (is_known == nullptr || is_known(metrics));
  }
};

const std::vector<Metric>& metric_table();         // in the order of a result document
const Metric* find_metric(std::string_view name);  // nullptr if unknown

// The known metrics of a summary of a prediction (Cell or Candidate), in the table's order.
std::vector<std::pair<std::string, double>> figures_of(const Metrics& metrics, TimelineKind kind, MetricSummary summary);

// A figure or a time that is infinite or no number: "time: F0 on device 1 ends at inf s".
InputError not_finite(const std::string& figure);

// Writes a field of a document: bytes ("..._bytes") as whole numbers, truth values as true or false, other values with the digits
// that read back as the same number.
void write_metric(JsonWriter& out, std::string_view name, double value);

}  // namespace panpipe
