#include "validation/result_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "costmodel/base/error.hpp"
#include "costmodel/base/files_read.hpp"

namespace panpipe {
namespace {

using json = nlohmann::ordered_json;  // metrics keep the document's order
namespace fs = std::filesystem;

constexpr std::string_view kSchema = "panpipe-result/1";

[[noreturn]] void fail(const std::string& path, const std::string& message) { throw InputError(path + ": " + message); }

// What a foreign document most likely is.
std::string guess(const json& document) {
  if (!document.is_object()) return "a JSON " + std::string(document.type_name());
  if (const auto schema = document.find("schema"); schema != document.end() && schema->is_string())
    return "a document of schema '" + schema->get<std::string>() + "'";
  if (document.contains("traceEvents")) return "a trace";
  return "a JSON document without \"schema\"";
}

// No result of ours holds numbers near the ends of a double: sums and quotients of such would be none.
void check_numbers(const json& value, const std::string& place, const std::string& path) {
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
  for (const Lane lane : {Lane::Compute, Lane::Tensor, Lane::Send, Lane::Receive, Lane::Data, Lane::Copy, Lane::Host})
    if (name_of(lane) == name) return lane;
  fail(path, "timeline: there is no lane '" + name + "'");
}

// "2F0" -> F, "1SEND_B3" -> SendB; a label ("all_reduce") stays a label.
void name_action(const std::string& text, Span& span) {
  const std::size_t begin = std::min(text.find_first_not_of("0123456789"), text.size());
  std::size_t end = text.size();
  while (end > begin && (std::isdigit(static_cast<unsigned char>(text[end - 1])) || text[end - 1] == '.')) --end;
  const std::string name = text.substr(begin, end - begin);
  for (int kind = 0; kind <= static_cast<int>(ActionKind::Sync); ++kind) {
    if (name_of(static_cast<ActionKind>(kind)) != name) continue;
    span.action.kind = static_cast<ActionKind>(kind);
    if (const std::size_t point = text.find('.', end); point != std::string::npos)
      span.action.split = static_cast<std::int8_t>(std::atoi(text.c_str() + point + 1));
    return;
  }
  span.action.kind = ActionKind::Sync;
  span.label = text;
}

Span to_span(const json& row, const std::string& path) {
  Span span;
  span.device = row.at("device");
  span.lane = lane_of(row.at("lane"), path);
  name_action(row.at("action"), span);
  span.action.stage = row.value("stage", -1);
  span.action.microbatch = row.value("microbatch", -1);
  span.start = Duration(row.at("start_s").get<double>());
  span.end = Duration(row.at("end_s").get<double>());
  span.bytes = Bytes(row.value("bytes", std::int64_t{0}));
  span.waiting = Duration(row.value("waiting_s", 0.0));
  span.alone = Duration(row.value("alone_s", 0.0));
  return span;
}

// Whose copy a device is, by the memory rows that name theirs. In older documents they do not: then the device of the same rank
// that has a row, and without one the first of all.
class Originals {
 public:
  explicit Originals(const json& memory) {
    for (const json& row : memory) {
      const std::int32_t device = row.at("device");
      own_.push_back(device);
      for (const json& copy : row.value("copies", json::array())) original_[copy.get<std::int32_t>()] = device;
    }
  }

  void note_rank(const DeviceTimeline& device) {
    if (std::find(own_.begin(), own_.end(), device.device) != own_.end()) of_rank_.emplace(device.rank, device.device);
  }

  std::int32_t of(const DeviceTimeline& copy, const std::vector<DeviceTimeline>& devices) const {
    if (const auto named = original_.find(copy.device); named != original_.end()) return named->second;
    if (const auto rank = of_rank_.find(copy.rank); rank != of_rank_.end()) return rank->second;
    return devices.front().device == copy.device ? -1 : devices.front().device;
  }

 private:
  std::vector<std::int32_t> own_;
  std::map<std::int32_t, std::int32_t> original_, of_rank_;
};

void add_devices(const json& document, Timeline& timeline) {
  const json memory = document.value("memory", json::array());
  Originals originals(memory);
  std::vector<std::size_t> copies;
  for (const json& row : document.at("metrics").at("per_device")) {
    DeviceTimeline device;
    device.device = row.at("device");
    device.rank = row.value("rank", 0);
    device.peak = Bytes(row.value("peak_memory_bytes", std::int64_t{0}));
    originals.note_rank(device);
    const auto own = std::find_if(memory.begin(), memory.end(), [&](const json& m) { return m.at("device") == device.device; });
    if (own == memory.end()) {
      copies.push_back(timeline.devices.size());
    } else {
      device.limit = Bytes(own->value("limit_bytes", std::int64_t{0}));
      const json parts = own->value("parts", json::object());
      for (const auto& [name, bytes] : parts.items()) device.peak_parts.push_back({name, Bytes(bytes.get<std::int64_t>())});
      for (const json& sample : own->value("curve", json::array()))
        device.memory.push_back({Duration(sample.at(0).get<double>()), Bytes(sample.at(1).get<std::int64_t>())});
    }
    timeline.devices.push_back(std::move(device));
  }
  for (const std::size_t i : copies) timeline.devices[i].same_as = originals.of(timeline.devices[i], timeline.devices);
}

PlanFacts to_plan(const json& row) {
  PlanFacts plan;
  plan.schedule = row.value("schedule", "");
  plan.transfers = row.value("transfers", "");
  plan.pipeline = row.value("pipeline", 1);
  plan.tensor = row.value("tensor", 1);
  plan.data = row.value("data", 1);
  plan.zero = row.value("zero", 0);
  plan.micro = row.value("micro", 1);
  plan.stages = row.value("stages", plan.pipeline);
  plan.recomputed_stages = row.value("recomputed_stages", 0);
  plan.fully_recomputed_stages = row.value("fully_recomputed_stages", 0);
  plan.splits_backward = row.value("splits_backward", false);
  plan.braided = row.value("braided", false);
  plan.overlaps_reductions = row.value("overlaps_reductions", false);
  return plan;
}

DeviceMetrics to_device_metrics(const json& row) {
  DeviceMetrics device;
  device.device = row.at("device");
  device.rank = row.value("rank", 0);
  device.step_time_s = row.value("step_time_s", 0.0);
  device.compute_s = row.value("compute_s", 0.0);
  device.exposed_communication_s = row.value("exposed_communication_s", 0.0);
  device.bubble_step = row.value("bubble_step", 0.0);
  device.bubble_span = row.value("bubble_span", 0.0);
  device.peak_memory_bytes = row.value("peak_memory_bytes", 0.0);
  device.fits = row.value("fits", true);
  return device;
}

LinkContention to_contention(const json& row) {
  LinkContention link;
  link.resource = row.at("resource");
  link.busy = Duration(row.value("busy_s", 0.0));
  link.shared = Duration(row.value("shared_s", 0.0));
  link.lost = Duration(row.value("lost_s", 0.0));
  link.flows = row.value("flows", 0);
  link.utilisation = row.value("utilisation", 0.0);
  return link;
}

ResultDocument to_result(const json& document, const std::string& path) {
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
  result.scenario = document.value("context", json::object()).value("scenario", "");
  result.heading = document.value("heading", std::vector<std::string>());
  result.paths = document.value("paths", json::object()).get<std::map<std::string, std::vector<std::string>>>();
  if (const auto plan = document.find("plan"); plan != document.end()) result.plan = to_plan(*plan);
  result.timeline.kind = result.kind;
  for (const auto& [name, value] : document.at("metrics").items()) {
    if (value.is_number()) result.metrics.emplace_back(name, value.get<double>());
    if (value.is_boolean()) result.metrics.emplace_back(name, value.get<bool>() ? 1.0 : 0.0);
  }
  result.timeline.step_time = Duration(document.at("metrics").at("step_time_s").get<double>());
  add_devices(document, result.timeline);
  for (const json& row : document.at("metrics").at("per_device")) result.per_device.push_back(to_device_metrics(row));
  for (const json& row : document.value("contention", json::array())) result.timeline.contention.push_back(to_contention(row));
  result.has_timeline = document.contains("timeline");
  if (!result.has_timeline) return result;
  for (const json& row : document["timeline"]) result.timeline.spans.push_back(to_span(row, path));
  std::stable_sort(result.timeline.spans.begin(), result.timeline.spans.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.device, a.lane, a.start) < std::tuple(b.device, b.lane, b.start);
  });
  return result;
}

}  // namespace

ResultDocument parse_result(const std::string& text, const std::string& path) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    fail(path, fmt::format("this is not JSON (byte {})", error.byte));
  }
  if (!document.is_object() || document.value("schema", json()) != kSchema)
    fail(path, "this is " + guess(document) + ", not a result of panpipe estimate, simulate or run");
  check_numbers(document, "", path);
  try {
    return to_result(document, path);
  } catch (const json::exception& error) {
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
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  if (!stream) fail(file.string(), "this file cannot be read");
  report_file_read(file.string());
  return parse_result(content.str(), file.string());
}

}  // namespace panpipe
