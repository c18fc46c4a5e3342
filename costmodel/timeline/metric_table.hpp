// Every figure of a step, declared once: its name, its unit, where it is kept and which documents hold it. What writes, reads,
// sweeps, lists or compares figures goes by this table. Definitions: docs/models/metrics.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

class JsonWriter;

enum class MetricUnit : std::uint8_t { Second, Byte, Share, Truth, Flop, PerSecond, Count, Hour, Money, Energy, Mass };

// Which results hold a metric. `Runs`: predictions of a scenario that states a run, those figures that are known of it. A result
// holds the terms of the share of memory; the share itself is only in a plan's answer.
enum class MetricIn : std::uint8_t { EveryResult, Predictions, Simulations, Measurements, Runs, NoResult };

struct Metric {
  std::string_view name;
  MetricUnit unit{};
  double (*of_step)(const Metrics&) = nullptr;  // true and false are 1 and 0
  double (*of_device)(const DeviceMetrics&) = nullptr;
  void (*set_of_device)(DeviceMetrics&, double) = nullptr;  // both null: of the whole step alone
  MetricIn in = MetricIn::EveryResult;

  bool (*is_known)(const Metrics&) = nullptr;  // null: always

  bool per_device() const { return of_device != nullptr; }
  bool is_in_result_of(TimelineKind kind) const;
  bool is_in(const Metrics& metrics, TimelineKind kind) const {
    return is_in_result_of(kind) && (is_known == nullptr || is_known(metrics));
  }
};

const std::vector<Metric>& metric_table();         // in the order of a result document
const Metric* find_metric(std::string_view name);  // nullptr: none of ours

// Some of them by name, in the order asked for: each kind of document keeps its own.
std::vector<std::pair<std::string, double>> figures_of(const Metrics& metrics, std::initializer_list<std::string_view> names);

// Of the whole run, those that are known, in the table's order; none where the scenario states no run.
std::vector<std::pair<std::string, double>> run_figures_of(const Metrics& metrics);

// A field of a document: bytes ("..._bytes") whole, true or false, everything else with the digits that read back as the same
// number.
void write_metric(JsonWriter& out, std::string_view name, double value);

}  // namespace panpipe
