#include "present/result/result.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <vector>

#include "base/text/json_writer.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "present/result/result_plan.hpp"

namespace panpipe::present {
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

template <class Pairs>
void write_pairs(JsonWriter& out, std::string_view name, const Pairs& pairs) {
  out.object(name);
  for (const auto& [key, value] : pairs) out.field(key, value);
  out.end();
}

void write_context(JsonWriter& out, const ResultContext& context, const Timeline& timeline) {
  out.object("context").field("version", context.version).field("scenario", context.scenario);
  out.field("devices", timeline.devices.size()).field("seed", context.seed);
  write_trainer(out, context.trainer.get());
  if (context.unused_devices) out.field("unused_devices", *context.unused_devices);
  if (timeline.kind == TimelineKind::Measured) out.field("clock_error_s", timeline.clock_error.base());
  write_pairs(out, "hashes", context.hashes);
  write_pairs(out, "libraries", context.libraries);
  if (context.with_clock) out.field("host", host_name()).field("date", now_utc()).field("wall_s", context.wall_s);
  out.end();
}

void write_plan(JsonWriter& out, const PlanFacts& plan, TimelineKind kind) {
  out.object("plan").field("schedule", plan.schedule);
  if (kind != TimelineKind::Measured) out.field("transfers", plan.transfers);
  for (const Axis& axis : kAxes)
    if (axis.number != nullptr && axis.written(plan.degrees)) out.field(axis.key, axis.of(plan.degrees));
  out.field("micro", plan.degrees.micro).field("stages", plan.stages).field("recomputed_stages", plan.recomputed_stages);
  out.field("fully_recomputed_stages", plan.fully_recomputed_stages).field("splits_backward", plan.splits_backward);
  out.field("braided", plan.braided).field("overlaps_reductions", plan.overlaps_reductions).end();
}

void write_heading(JsonWriter& out, const std::string& heading) {
  out.list("heading");
  for (std::size_t at = 0; at < heading.size();) {
    const std::size_t end = std::min(heading.find('\n', at), heading.size());
    out.value(heading.substr(at, end - at));
    at = end + 1;
  }
  out.end();
}

void write_metrics(JsonWriter& out, const Metrics& metrics, TimelineKind kind) {
  out.object("metrics", JsonLayout::Lines);
  for (const Metric& metric : metric_table())
    if (metric.is_in(metrics, kind)) write_metric(out, metric.name, metric.of_step(metrics));
  if (const std::string_view how = fits_how(metrics, kind); !how.empty()) out.field("fits_how", how);
  if (kind != TimelineKind::Measured && metrics.run && metrics.run->cost) out.field("currency", metrics.run->currency);
  out.objects("per_device", metrics.per_device, [&](const DeviceMetrics& row) {
    out.field("device", row.device).field("rank", row.rank);
    for (const Metric& metric : metric_table())
      if (metric.per_device()) write_metric(out, metric.name, metric.of_device(row));
  });
  out.end();
}

std::vector<std::int32_t> copies_of(const Timeline& timeline, std::int32_t original) {
  std::vector<std::int32_t> copies;
  for (const DeviceTimeline& device : timeline.devices)
    if (device.same_as == original) copies.push_back(device.device);
  return copies;
}

// The memory of devices that are not copies of another.
void write_memory(JsonWriter& out, const Timeline& timeline, bool with_curve) {
  out.list("memory", JsonLayout::Lines);
  for (const DeviceTimeline& device : timeline.devices) {
    if (device.same_as >= 0) continue;
    out.object().field("device", device.device).object("parts");
    for (const MemoryPart& part : device.peak_parts) out.field(name_of(part.use), part.bytes.base());
    out.end().field("peak_bytes", device.peak.base()).field("limit_bytes", device.limit.base());
    if (const std::vector<std::int32_t> same = copies_of(timeline, device.device); !same.empty()) out.field("copies", same);
    if (with_curve) {
      out.list("curve");
      for (const MemorySample& sample : device.memory) out.list().value(sample.at.base()).value(sample.allocated.base()).end();
      out.end();
    }
    out.end();
  }
  out.end();
}

void write_memory_hints(JsonWriter& out, const std::vector<MemoryHint>& hints) {
  if (hints.empty()) return;
  out.objects("memory_hints", hints, [&](const MemoryHint& hint) {
    out.field("setting", hint.setting);
    if (!hint.meaning.empty()) out.field("meaning", hint.meaning);
    out.field("need_bytes", hint.need.base()).field("saved_bytes", hint.saved.base()).field("fits_how", hint.fits_how);
  });
}

void write_steps(JsonWriter& out, const Timeline& timeline) {
  if (timeline.kind == TimelineKind::Measured) {
    std::vector<decltype(MeasuredStep::loss)> losses;
    for (const MeasuredStep& step : timeline.steps) losses.push_back(step.loss);
    out.field("losses", losses);
  }
  out.objects("repetitions", timeline.steps,
              [&](const MeasuredStep& step) { out.field("step_time_s", step.step_time.base()).field("loss", step.loss); });
}

void write_contention(JsonWriter& out, const Timeline& timeline) {
  out.objects("contention", timeline.contention, [&](const LinkContention& link) {
    out.field("resource", link.resource).field("busy_s", link.busy.base()).field("shared_s", link.shared.base());
    out.field("lost_s", link.lost.base()).field("flows", link.flows).field("utilisation", link.utilisation);
  });
}

// Took longer than on idle links. Less than a tick is rounding.
bool was_slowed(const Span& span) { return to_ticks(span.end - span.start - span.alone) >= Ticks(1); }

void write_timeline(JsonWriter& out, const Timeline& timeline) {
  out.objects("timeline", timeline.spans, [&](const Span& span) {
    out.field("device", span.device).field("lane", name_of(span.lane));
    out.field("action", span.label.empty() ? to_text(span.action) : span.label).field("microbatch", span.action.microbatch);
    out.field("stage", span.action.stage).field("start_s", span.start.base()).field("end_s", span.end.base());
    if (span.bytes != Bytes(0)) out.field("bytes", span.bytes.base());
    if (span.waiting > Duration(0)) out.field("waiting_s", span.waiting.base());
    if (span.alone > Duration(0) && was_slowed(span)) out.field("alone_s", span.alone.base());
  });
}

void write_blame(JsonWriter& out, const std::vector<Blame>& all) {
  if (all.empty()) return;
  out.objects("blame", all, [&](const Blame& blame) {
    out.field(blame.device < 0 ? "link" : "device", blame.what);
    if (blame.device >= 0) out.field("index", blame.device);
    if (blame.rank >= 0) out.field("rank", blame.rank);
    out.field("rate", blame.share).field("step_time_s", blame.step.base()).field("lost_s", blame.lost.base());
    out.field("of_step", blame.of_step());
  });
}

std::string document(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, const ResultPlan* plan,
                     bool with_timeline) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-result/1").field("kind", name_of(timeline.kind));
  write_context(out, context, timeline);
  if (!context.assumed.empty()) out.field("assumed", context.assumed);
  if (!context.cautions.empty()) out.field("cautions", context.cautions);
  write_blame(out, context.blame);
  write_metrics(out, metrics, timeline.kind);
  write_memory(out, timeline, with_timeline);
  write_memory_hints(out, context.memory_hints);
  if (timeline.kind != TimelineKind::Measured) write_evidence(out, metrics.evidence);
  if (timeline.kind == TimelineKind::Simulated) write_contention(out, timeline);
  write_steps(out, timeline);
  if (plan) write_plan(out, plan->facts, timeline.kind);
  if (with_timeline) write_timeline(out, timeline);
  if (plan) write_pairs(out, "paths", plan->paths);
  if (plan && !plan->heading.empty()) write_heading(out, plan->heading);
  return out.end().finish() + "\n";
}

}  // namespace

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, bool with_timeline) {
  return document(timeline, metrics, context, nullptr, with_timeline);
}

std::string to_result_json(const Timeline& timeline, const Metrics& metrics, const ResultContext& context, const ResultPlan& plan,
                           bool with_timeline) {
  return document(timeline, metrics, context, &plan, with_timeline);
}

}  // namespace panpipe::present
