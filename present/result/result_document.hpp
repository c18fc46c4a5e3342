// A result document (docs/file-formats.md), predicted or measured, read back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "present/result/result_plan.hpp"

namespace panpipe {

struct ResultDocument {
  std::string path;                  // as asked for
  std::string scenario;              // as the document names it
  std::vector<std::string> heading;  // lines on model, cluster and plan; documents of earlier versions have none
  TimelineKind kind{};
  std::string currency;                                   // of the metric `cost`, where there is one
  std::vector<std::pair<std::string, double>> metrics;    // in the document's order; true and false are 1 and 0
  std::vector<DeviceMetrics> per_device;                  // as the engine computed them
  std::map<std::string, std::vector<std::string>> paths;  // "tensor", "pipeline", "data" -> classes of path, from near to far
  std::optional<PlanFacts> plan;                          // absent in older documents
  std::optional<Evidence> evidence;                       // of predictions; absent in older documents
  bool has_timeline = false;
  Timeline timeline;  // spans, devices with memory, contention; what a document does not hold stays empty

  bool measured() const { return kind == TimelineKind::Measured; }
};

// `path`: a result.json, or a folder that holds one. InputError: not there, not JSON, another kind of document (which one), or
// broken inside (where).
ResultDocument read_result(const std::string& path);
ResultDocument parse_result(const std::string& text, const std::string& path);

}  // namespace panpipe
