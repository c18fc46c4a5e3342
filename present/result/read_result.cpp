#include "present/result/read_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/json_input.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/timeline/metric_table.hpp"

namespace panpipe::present {
namespace {

using Json = nlohmann::ordered_json;  // metrics keep the document's order
namespace fs = std::filesystem;

constexpr std::string_view kSchema = "panpipe-result/1";

[[noreturn]] void fail(const std::string& path, const std::string& message) { throw InputError(path + ": " + message); }

class OutOfRange : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A guess at the kind of a foreign document.
std::string guess(const Json& document) {
  if (!document.is_object()) return "a JSON " + std::string(document.type_name());
  if (const auto schema = document.find("schema"); schema != document.end() && schema->is_string())
    return "a document of schema '" + schema->get<std::string>() + "'";
  if (document.contains("traceEvents")) return "a trace";
  return "a JSON document without \"schema\"";
}

// No result of ours holds numbers near the ends of a double: sums and quotients of such would be none.
void check_numbers(const Json& value, const std::string& place, const std::string& path) {
  constexpr double kMost = 1e60;
  if (value.is_number_float()) {
    const double size = std::abs(value.get<double>());
    if (size > kMost || (size > 0 && size < 1 / kMost))
      fail(path, fmt::format("{} is out of range: {:g}", place, value.get<double>()));
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) check_numbers(inner, place.empty() ? key : place + "." + key, path);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) check_numbers(value[i], fmt::format("{}[{}]", place, i), path);
  }
}

Lane lane_of(const std::string& name, const std::string& path) {
  for (const Lane lane : {Lane::Compute, Lane::Tensor, Lane::Send, Lane::Receive, Lane::Data, Lane::Copy, Lane::Vocabulary})
    if (name_of(lane) == name) return lane;
  fail(path, "timeline: there is no lane '" + name + "'");
}

// "2F0" -> F, "1SEND_B3" -> SendB; a label ("all_reduce") stays a label.
void name_action(const std::string& text, Span& span) {
  const std::size_t begin = std::min(text.find_first_not_of("0123456789"), text.size());
  std::size_t end = text.size();
  while (end > begin && (std::isdigit(static_cast<unsigned char>(text[end - 1])) || text[end - 1] == '.')) --end;
  const std::string name = text.substr(begin, end - begin);
  for (int kind = 0; kind < static_cast<int>(kActionKinds); ++kind) {
    if (name_of(static_cast<ActionKind>(kind)) != name) continue;
    span.action.kind = static_cast<ActionKind>(kind);
    if (const std::size_t point = text.find('.', end); point != std::string::npos)
      span.action.split = static_cast<std::int8_t>(std::atoi(text.c_str() + point + 1));
    return;
  }
  span.action.kind = ActionKind::Sync;
  span.label = text;
}

constexpr std::int64_t kMostDevices = 10'000'000;
// Indices count from 0; -1 stands for none.
constexpr std::int64_t kNone = -1, kLargestIndex = std::numeric_limits<std::int32_t>::max();

double figure(const Json& value) { return value.get<double>(); }
double figure(const Json& row, const char* key, double fallback) { return row.contains(key) ? figure(row[key]) : fallback; }

std::int64_t whole(const Json& value, std::int64_t least, std::int64_t most) {
  // A figure may be written with a point (bytes that were averaged); the library would convert any number without a look.
  const double found = value.get<double>();
  if (!(found >= static_cast<double>(least) && found <= static_cast<double>(most)))
    throw OutOfRange(fmt::format("{} is not in the range {} to {}", value.dump(), least, most));
  return value.get<std::int64_t>();
}
std::int32_t index(const Json& row, const char* key, std::int64_t fallback) {
  return static_cast<std::int32_t>(row.contains(key) ? whole(row[key], kNone, kLargestIndex) : fallback);
}
std::int32_t device_of(const Json& row) { return static_cast<std::int32_t>(whole(row.at("device"), 0, kMostDevices)); }
Bytes bytes_of(const Json& value) {
  constexpr std::int64_t kLargest = 1'000'000'000'000'000'000;  // beyond any memory; sums of them fit
  return Bytes(whole(value, -kLargest, kLargest));
}
Bytes bytes_of(const Json& row, const char* key) { return row.contains(key) ? bytes_of(row[key]) : Bytes(0); }
Duration time_of(const Json& value) { return Duration(figure(value)); }

Span to_span(const Json& row, const std::string& path) {
  Span span;
  span.device = device_of(row);
  span.lane = lane_of(row.at("lane"), path);
  name_action(row.at("action"), span);
  span.action.stage = index(row, "stage", kNone);
  span.action.microbatch = index(row, "microbatch", kNone);
  span.start = time_of(row.at("start_s"));
  span.end = time_of(row.at("end_s"));
  span.bytes = bytes_of(row, "bytes");
  span.waiting = Duration(figure(row, "waiting_s", 0));
  span.alone = Duration(figure(row, "alone_s", 0));
  return span;
}

// Whose copy each device is: the memory rows of the others name theirs.
std::map<std::int32_t, std::int32_t> originals_of(const Json& memory) {
  std::map<std::int32_t, std::int32_t> originals;
  for (const Json& row : memory)
    for (const Json& copy : row.value("copies", Json::array())) originals[copy.get<std::int32_t>()] = device_of(row);
  return originals;
}

MemoryUse use_of(const std::string& name, const std::string& path) {
  if (const auto use = memory_use_named(name)) return *use;
  fail(path, "memory: there is no part '" + name + "'");
}

void add_devices(const Json& document, const std::string& path, Timeline& timeline) {
  const Json memory = document.value("memory", Json::array());
  const std::map<std::int32_t, std::int32_t> originals = originals_of(memory);
  for (const Json& row : document.at("metrics").at("per_device")) {
    DeviceTimeline device;
    device.device = device_of(row);
    device.rank = index(row, "rank", 0);
    device.peak = bytes_of(row, "peak_memory_bytes");
    const auto own = std::find_if(memory.begin(), memory.end(), [&](const Json& m) { return m.at("device") == device.device; });
    if (own != memory.end()) {
      device.limit = bytes_of(*own, "limit_bytes");
      const Json parts = own->value("parts", Json::object());
      for (const auto& [name, bytes] : parts.items()) device.peak_parts.push_back({use_of(name, path), bytes_of(bytes)});
      for (const Json& sample : own->value("curve", Json::array()))
        device.memory.push_back({time_of(sample.at(0)), bytes_of(sample.at(1))});
    } else if (const auto original = originals.find(device.device); original != originals.end()) {
      device.same_as = original->second;
    }
    timeline.devices.push_back(std::move(device));
  }
}

PlanFacts to_plan(const Json& row) {
  PlanFacts plan;
  plan.schedule = row.value("schedule", "");
  plan.transfers = row.value("transfers", "");
  for (const Axis& axis : kAxes)
    if (axis.number != nullptr) axis.put(plan.degrees, row.value(std::string(axis.key), axis.of(Degrees{})));
  plan.degrees.micro = row.value("micro", 1);
  plan.stages = row.value("stages", plan.degrees.pipeline);
  plan.recomputed_stages = row.value("recomputed_stages", 0);
  plan.fully_recomputed_stages = row.value("fully_recomputed_stages", 0);
  plan.splits_backward = row.value("splits_backward", false);
  plan.braided = row.value("braided", false);
  plan.overlaps_reductions = row.value("overlaps_reductions", false);
  return plan;
}

Evidence to_evidence(const Json& row) {
  Evidence evidence;
  evidence.of_class = row.value("class", "");
  evidence.limits = row.value("limits", std::vector<std::string>());
  for (const Json& piece : row.value("pieces", Json::array()))
    evidence.pieces.push_back({piece.value("file", ""), piece.value("kind", ""), figure(piece, "half_width_before", 0),
                               figure(piece, "half_width_after", 0), piece.value("what", ""), piece.value("left_out", "")});
  if (const auto before = row.find("before"); before != row.end()) {
    evidence.p10_before_s = figure(*before, "step_time_p10_s", 0);
    evidence.p50_before_s = figure(*before, "step_time_p50_s", 0);
    evidence.p90_before_s = figure(*before, "step_time_p90_s", 0);
  }
  return evidence;
}

DeviceMetrics to_device_metrics(const Json& row) {
  DeviceMetrics device;
  device.device = device_of(row);
  device.rank = index(row, "rank", 0);
  for (const Metric& metric : metric_table())
    if (const std::string name(metric.name); metric.per_device() && row.contains(name))
      metric.set_of_device(device,
                           metric.unit == MetricUnit::Truth ? static_cast<double>(row[name].get<bool>()) : figure(row[name]));
  return device;
}

LinkContention to_contention(const Json& row) {
  LinkContention link;
  link.resource = row.at("resource");
  link.busy = Duration(figure(row, "busy_s", 0));
  link.shared = Duration(figure(row, "shared_s", 0));
  link.lost = Duration(figure(row, "lost_s", 0));
  link.flows = index(row, "flows", 0);
  link.utilisation = figure(row, "utilisation", 0);
  return link;
}

ResultDocument to_result(const Json& document, const std::string& path) {
  ResultDocument result;
  result.path = path;
  const std::string kind = document.at("kind");
  bool known = false;
  for (const TimelineKind candidate : {TimelineKind::Estimated, TimelineKind::Simulated, TimelineKind::Measured}) {
    if (name_of(candidate) != kind) continue;
    result.kind = candidate;
    known = true;
  }
  if (!known) fail(path, "kind is estimated, simulated or measured, not '" + kind + "'");
  const Json context = document.value("context", Json::object()), hashes = context.value("hashes", Json::object());
  result.scenario = context.value("scenario", "");
  for (const auto& [file, hash] : hashes.items()) result.hashes.emplace_back(file, hash.get<std::string>());
  result.heading = document.value("heading", std::vector<std::string>());
  result.paths = document.value("paths", Json::object()).get<std::map<std::string, std::vector<std::string>>>();
  result.plan = to_plan(document.value("plan", Json::object()));
  if (const auto evidence = document.find("evidence"); evidence != document.end()) result.evidence = to_evidence(*evidence);
  result.timeline.kind = result.kind;
  for (const auto& [name, value] : document.at("metrics").items()) {
    if (value.is_number()) result.metrics.emplace_back(name, figure(value));
    if (name == "currency" && value.is_string()) result.currency = value.get<std::string>();
    if (value.is_boolean()) result.metrics.emplace_back(name, value.get<bool>() ? 1.0 : 0.0);
  }
  result.timeline.step_time = time_of(document.at("metrics").at("step_time_s"));
  if (!(result.timeline.step_time > Duration(0)))
    fail(path, fmt::format("this result is broken: metrics.step_time_s is {}, and a step takes longer than no time",
                           document["metrics"]["step_time_s"].dump()));
  add_devices(document, path, result.timeline);
  for (const Json& row : document.at("metrics").at("per_device")) result.per_device.push_back(to_device_metrics(row));
  for (const Json& row : document.value("contention", Json::array())) result.timeline.contention.push_back(to_contention(row));
  result.has_timeline = document.contains("timeline");
  if (!result.has_timeline) return result;
  for (const Json& row : document["timeline"]) result.timeline.spans.push_back(to_span(row, path));
  std::stable_sort(result.timeline.spans.begin(), result.timeline.spans.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.device, a.lane, a.start) < std::tuple(b.device, b.lane, b.start);
  });
  return result;
}

}  // namespace

std::optional<double> ResultDocument::metric(std::string_view name) const {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  return std::nullopt;
}

ResultDocument parse_result(const std::string& text, const std::string& path) {
  const Json document = parse_json<Json>(text, path);
  if (!document.is_object() || document.value("schema", Json()) != kSchema)
    fail(path, "this is " + guess(document) + ", not a result of panpipe estimate, simulate or run");
  check_numbers(document, "", path);
  try {
    return to_result(document, path);
  } catch (const OutOfRange& error) {
    fail(path, std::string("this result is broken: ") + error.what());
  } catch (const Json::exception& error) {
    // The library's sentence names the key: "[json.exception.out_of_range.403] key 'metrics' not found".
    const std::string what = error.what();
    fail(path, "this result is broken: " + what.substr(std::min(what.size(), what.find("] ") + 2)));
  }
}

ResultDocument read_result(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? fs::path(path) / "result.json" : fs::path(path);
  if (!fs::exists(file, error)) {
    if (file != fs::path(path)) fail(path, "this folder holds no result.json; give a folder written with -o");
    fail(path, "this file does not exist");
  }
  const std::optional<std::string> content = input_bytes(file.string());
  if (!content) fail(file.string(), "this file cannot be read");
  report_file_read(file.string());
  return parse_result(*content, file.string());
}

}  // namespace panpipe::present
