#include "present/result/result.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include <fmt/ranges.h>

#include "base/text/json_text.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "present/result/result_plan.hpp"

namespace panpipe {
namespace {

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string pairs_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = "{";
  for (const auto& [key, value] : pairs) {
    if (out.size() > 1) out += ", ";
    out += json::text(key) + ": " + json::text(value);
  }
  return out + "}";
}

std::string context_json(const ResultContext& context, const Timeline& timeline) {
  std::string out = "{\"version\": " + json::text(context.version) + ", \"scenario\": " + json::text(context.scenario);
  out += fmt::format(", \"devices\": {}, \"seed\": {}", timeline.devices.size(), context.seed);
  if (context.unused_devices) out += fmt::format(", \"unused_devices\": [{}]", fmt::join(*context.unused_devices, ", "));
  if (timeline.kind == TimelineKind::Measured) out += ", \"clock_error_s\": " + json::number(timeline.clock_error.base());
  out += ", \"hashes\": " + pairs_json(context.hashes) + ", \"libraries\": " + pairs_json(context.libraries);
  if (context.with_clock) {
    out += ", \"host\": " + json::text(host_name()) + ", \"date\": " + json::text(now_utc());
    out += ", \"wall_s\": " + json::number(context.wall_s);
  }
  return out + "}";
}

std::string plan_json(const PlanFacts& plan, TimelineKind kind) {
  std::string out = "{\"schedule\": " + json::text(plan.schedule);
  if (kind != TimelineKind::Measured) out += ", \"transfers\": " + json::text(plan.transfers);
  return out + fmt::format(
                   ", \"pipeline\": {}, \"tensor\": {}, \"data\": {}, \"zero\": {}, \"micro\": {}, \"stages\": {}, "
                   "\"recomputed_stages\": {}, \"fully_recomputed_stages\": {}, \"splits_backward\": {}, \"braided\": {}, "
                   "\"overlaps_reductions\": {}}}",
                   plan.pipeline, plan.tensor, plan.data, plan.zero, plan.micro, plan.stages, plan.recomputed_stages,
                   plan.fully_recomputed_stages, json::boolean(plan.splits_backward), json::boolean(plan.braided),
                   json::boolean(plan.overlaps_reductions));
}

std::string paths_json(const ResultPlan& plan) {
  std::string out;
  for (const auto& [traffic, classes] : plan.paths)
    out += fmt::format("{}\"{}\": [\"{}\"]", out.empty() ? "" : ", ", traffic, fmt::join(classes, "\", \""));
  return "{" + out + "}";
}

std::string heading_json(const std::string& heading) {
  std::string out;
  for (std::size_t at = 0; at < heading.size();) {
    const std::size_t end = std::min(heading.find('\n', at), heading.size());
    out += (out.empty() ? "" : ", ") + json::text(heading.substr(at, end - at));
    at = end + 1;
  }
  return "[" + out + "]";
}

std::string row_json(const DeviceMetrics& row) {
  std::string out = fmt::format("{{\"device\": {}, \"rank\": {}", row.device, row.rank);
  for (const Metric& metric : metric_table())
    if (metric.per_device()) out += fmt::format(", \"{}\": {}", metric.name, metric_json(metric, metric.of_device(row)));
  return out + "}";
}

std::string metrics_json(const Metrics& metrics, TimelineKind kind) {
  std::string out = "{";
  for (const Metric& metric : metric_table())
    if (metric.is_in_result_of(kind))
      out += fmt::format("\n    \"{}\": {},", metric.name, metric_json(metric, metric.of_step(metrics)));
  out += "\n    \"per_device\": [";
  for (std::size_t i = 0; i < metrics.per_device.size(); ++i) {
    out += (i ? ",\n      " : "\n      ") + row_json(metrics.per_device[i]);
  }
  return out + "\n    ]\n  }";
}

std::string parts_json(const std::vector<MemoryPart>& parts) {
  std::string out = "{";
  for (const MemoryPart& part : parts) {
    if (out.size() > 1) out += ", ";
    out += json::text(name_of(part.use)) + ": " + json::number(part.bytes.base());
  }
  return out + "}";
}

// Of devices that are not copies of another.
std::vector<std::int32_t> copies_of(const Timeline& timeline, std::int32_t original) {
  std::vector<std::int32_t> copies;
  for (const DeviceTimeline& device : timeline.devices)
    if (device.same_as == original) copies.push_back(device.device);
  return copies;
}

std::string memory_json(const Timeline& timeline, bool with_curve) {
  std::string out = "[";
  for (const DeviceTimeline& device : timeline.devices) {
    if (device.same_as >= 0) continue;
    out += out.size() > 1 ? ",\n    " : "\n    ";
    out += fmt::format("{{\"device\": {}, \"parts\": {}, \"peak_bytes\": {}, \"limit_bytes\": {}", device.device,
                       parts_json(device.peak_parts), device.peak.base(), device.limit.base());
    if (const std::vector<std::int32_t> same = copies_of(timeline, device.device); !same.empty())
      out += fmt::format(", \"copies\": [{}]", fmt::join(same, ", "));
    if (with_curve) {
      out += ", \"curve\": [";
      for (std::size_t i = 0; i < device.memory.size(); ++i) {
        const MemorySample& sample = device.memory[i];
        out += fmt::format("{}[{}, {}]", i ? ", " : "", json::number(sample.at.base()), sample.allocated.base());
      }
      out += "]";
    }
    out += "}";
  }
  return out + "\n  ]";
}

std::string losses_json(const Timeline& timeline) {
  std::string out = "[";
  for (const MeasuredStep& step : timeline.steps) out += (out.size() > 1 ? ", " : "") + json::number(step.loss);
  return out + "]";
}

std::string repetitions_json(const Timeline& timeline) {
  std::string out = "[";
  for (const MeasuredStep& step : timeline.steps)
    out += (out.size() > 1 ? ",\n    " : "\n    ") +
           fmt::format("{{\"step_time_s\": {}, \"loss\": {}}}", json::number(step.step_time.base()), json::number(step.loss));
  return out + (timeline.steps.empty() ? "]" : "\n  ]");
}

std::string contention_json(const Timeline& timeline) {
  std::string out = "[";
  for (const LinkContention& link : timeline.contention) {
    out += out.size() > 1 ? ",\n    " : "\n    ";
    out +=
        fmt::format("{{\"resource\": {}, \"busy_s\": {}, \"shared_s\": {}, \"lost_s\": {}, \"flows\": {}, \"utilisation\": {}}}",
                    json::text(link.resource), json::number(link.busy.base()), json::number(link.shared.base()),
                    json::number(link.lost.base()), link.flows, json::number(link.utilisation));
  }
  return out + (timeline.contention.empty() ? "]" : "\n  ]");
}

// Took longer than on idle links. Less than a tick is rounding.
bool was_slowed(const Span& span) { return to_ticks(span.end - span.start - span.alone) >= Ticks(1); }

std::string timeline_json(const Timeline& timeline) {
  std::string out = "[";
  for (const Span& span : timeline.spans) {
    out += out.size() > 1 ? ",\n    " : "\n    ";
    out += fmt::format(
        "{{\"device\": {}, \"lane\": \"{}\", \"action\": {}, \"microbatch\": {}, \"stage\": {}, \"start_s\": {}, \"end_s\": {}",
        span.device, name_of(span.lane), json::text(span.label.empty() ? to_text(span.action) : span.label),
        span.action.microbatch, span.action.stage, json::number(span.start.base()), json::number(span.end.base()));
    if (span.bytes != Bytes(0)) out += ", \"bytes\": " + json::number(span.bytes.base());
    if (span.waiting > Duration(0)) out += ", \"waiting_s\": " + json::number(span.waiting.base());
    if (span.alone > Duration(0) && was_slowed(span)) out += ", \"alone_s\": " + json::number(span.alone.base());
    out += "}";
  }
  return out + (timeline.spans.empty() ? "]" : "\n  ]");
}

std::string document(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, const ResultPlan* plan,
                     bool with_timeline) {
  std::string out = "{\n  \"schema\": \"panpipe-result/1\",\n  \"kind\": \"" + std::string(name_of(timeline.kind)) + "\",\n";
  out += "  \"context\": " + context_json(context, timeline) + ",\n";
  out += "  \"metrics\": " + metrics_json(metrics, timeline.kind) + ",\n";
  out += "  \"memory\": " + memory_json(timeline, with_timeline) + ",\n";
  if (timeline.kind == TimelineKind::Simulated) out += "  \"contention\": " + contention_json(timeline) + ",\n";
  if (timeline.kind == TimelineKind::Measured) out += "  \"losses\": " + losses_json(timeline) + ",\n";
  out += "  \"repetitions\": " + repetitions_json(timeline);
  if (plan) out += ",\n  \"plan\": " + plan_json(plan->facts, timeline.kind);
  if (with_timeline) out += ",\n  \"timeline\": " + timeline_json(timeline);
  if (plan) out += ",\n  \"paths\": " + paths_json(*plan);
  if (plan && !plan->heading.empty()) out += ",\n  \"heading\": " + heading_json(plan->heading);
  return out + "\n}\n";
}

}  // namespace

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, bool with_timeline) {
  return document(timeline, metrics, context, nullptr, with_timeline);
}

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, const ResultPlan& plan,
                           bool with_timeline) {
  return document(timeline, metrics, context, &plan, with_timeline);
}

}  // namespace panpipe
