// Reads a result document (docs/file-formats.md), predicted or measured.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "present/result/result_plan.hpp"

namespace panpipe::present {

struct ResultDocument {
  std::string path;                                         // as the user named it
  std::string scenario;                                     // the scenario's name in the document
  std::vector<std::string> heading;                         // lines on model, cluster and plan
  std::vector<std::pair<std::string, std::string>> hashes;  // of the files that were read: path, SHA-256
  TimelineKind kind{};
  std::string currency;                                   // of the metric `cost`, if present
  std::vector<std::pair<std::string, double>> metrics;    // in the document's order; truth values are 1 and 0
  std::vector<DeviceMetrics> per_device;                  // as the engine computed them
  std::map<std::string, std::vector<std::string>> paths;  // "tensor", "pipeline", "data" -> classes of path, from near to far
  PlanFacts plan;
  std::optional<Evidence> evidence;  // of predictions
  bool has_timeline = false;
  Timeline timeline;  // spans, devices with memory, contention; parts missing in the document stay empty

  bool measured() const { return kind == TimelineKind::Measured; }
  std::optional<double> metric(std::string_view name) const;
};

// `path` is a result.json, or a folder with one. Throws InputError if it is missing, not JSON, another kind of document (named in
// the message), or invalid (with the place).
ResultDocument read_result(const std::string& path);
ResultDocument parse_result(const std::string& text, const std::string& path);

}  // namespace panpipe::present
