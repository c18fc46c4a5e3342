#include "jobs/memory/memory_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/text/counted.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/memory_text.hpp"
#include "base/text/percent.hpp"
#include "base/text/text_table.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kShownHoldersOfTable = 12, kShownSegmentsOfTable = 5;
constexpr double kLeastShare = 0.01;  // of what is allocated
constexpr double kMuchUnknown = 0.1;  // share of bytes without an explanation that is worth a remark

constexpr std::array<std::string_view, kMemoryRoles> kRoleNames = {"parameters", "gradients", "optimizer", "activations",
                                                                   "temporary",  "backward",  "unknown"};

std::optional<double> as_double(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
}

double sum_of(const PredictedMemory& predicted, std::initializer_list<MemoryUse> uses) {
  double sum = 0;
  for (const MemoryPart& part : predicted.parts)
    if (std::find(uses.begin(), uses.end(), part.use) != uses.end()) sum += static_cast<double>(part.bytes.base());
  return sum;
}

double sum_of(const MeasuredMemory& measured, std::initializer_list<MemoryRole> roles) {
  double sum = 0;
  for (const MemoryRole role : roles) sum += static_cast<double>(measured.of(role));
  return sum;
}

// Tensors are what a snapshot's history adds up, blocks what a summary counts.
std::optional<double> allocated_of(const MeasuredMemory& measured) {
  return as_double(measured.peak_allocated ? measured.peak_allocated : measured.peak_requested);
}
std::optional<double> reserved_of(const MeasuredMemory& measured) {
  return as_double(measured.peak_reserved ? measured.peak_reserved : measured.reserved);
}

std::string text_of(const std::optional<double>& bytes) { return bytes ? memory_text(*bytes) : "-"; }
std::string change_of(const MemoryRow& row) {
  if (!row.is_compared()) return "";
  return *row.predicted > 0 ? signed_percent(row.difference() / *row.predicted) : "not predicted";
}

void add_fact(std::string& text, std::string_view name, const std::optional<std::int64_t>& now,
              const std::optional<std::int64_t>& peak) {
  if (!now && !peak) return;
  text += fmt::format("  {:<26}", name);
  if (now) text += memory_text(static_cast<double>(*now));
  if (peak) text += fmt::format("{}{} at the peak", now ? ", " : "", memory_text(static_cast<double>(*peak)));
  text += '\n';
}

std::string facts_text(const MeasuredMemory& measured) {
  std::string text = fmt::format("{} of GPU {}", measured.source, measured.device);
  if (measured.has_roles())
    text += fmt::format(": {}, {} of history", counted(measured.segments, "segment"), counted(measured.events, "event"));
  if (measured.out_of_memory > 0) text += fmt::format(", out of memory {}", counted(measured.out_of_memory, "time"));
  if (measured.retries > 0) text += fmt::format(", {} of cudaMalloc", counted(measured.retries, "retrial"));
  text += '\n';
  add_fact(text, "allocated", measured.allocated, measured.peak_allocated);
  add_fact(text, "requested by tensors", measured.requested, measured.peak_requested);
  add_fact(text, "reserved", measured.reserved, measured.peak_reserved);
  add_fact(text, "unused, in used segments", measured.inactive_split, std::nullopt);
  if (!measured.settings.empty()) text += fmt::format("  {:<26}{}\n", "allocator's settings", measured.settings);
  return text;
}

std::string rows_text(const std::vector<MemoryRow>& rows, bool predicted) {
  TextTable table(predicted ? std::vector<TextColumn>{"<part", "measured", "predicted", "difference"}
                            : std::vector<TextColumn>{"<part", "measured"});
  for (const MemoryRow& row : rows) {
    std::vector<std::string> cells = {row.part, text_of(row.measured)};
    if (predicted) cells.insert(cells.end(), {text_of(row.predicted), change_of(row)});
    table.row(std::move(cells));
  }
  return table.text();
}

std::string named_text(const std::vector<MemoryRow>& rows) {
  std::string text;
  for (const MemoryRow& row : named_rows(rows))
    text += fmt::format("{}: {} measured for {} predicted, {}\n", row.part, text_of(row.measured), text_of(row.predicted),
                        change_of(row));
  return text.empty() ? "nothing differs by more than 30 % of its prediction\n" : text;
}

std::string holders_text(const MeasuredMemory& measured) {
  if (measured.holders.empty()) return "";
  TextTable table({"<allocated at", "<for", "bytes", "blocks"});
  for (std::size_t i = 0; i < std::min(measured.holders.size(), kShownHoldersOfTable); ++i) {
    const MemoryHolder& holder = measured.holders[i];
    table.row({holder.place, std::string(name_of(holder.role)), memory_text(static_cast<double>(holder.bytes)),
               std::to_string(holder.blocks)});
  }
  return fmt::format("\nlargest holders {}\n{}", measured.at_peak ? "at the peak of the history" : "when it was taken",
                     table.text());
}

std::string segments_text(const MeasuredMemory& measured) {
  if (measured.largest.empty()) return "";
  TextTable table({"segment", "allocated", "largest gap", "blocks", "stream"});
  for (std::size_t i = 0; i < std::min(measured.largest.size(), kShownSegmentsOfTable); ++i) {
    const LargeSegment& segment = measured.largest[i];
    table.row({memory_text(static_cast<double>(segment.bytes)), memory_text(static_cast<double>(segment.allocated)),
               memory_text(static_cast<double>(segment.largest_gap)), std::to_string(segment.blocks),
               std::to_string(segment.stream)});
  }
  return fmt::format("\nlargest segments\n{}", table.text());
}

// What the file does not state, and how to make one that does.
std::string remarks_text(const MeasuredMemory& measured) {
  if (!measured.has_roles())
    return fmt::format("A {} has no parts: torch.cuda.memory._dump_snapshot(FILE) writes them.\n", measured.source);
  std::string text;
  const double all =
      sum_of(measured, {MemoryRole::Parameters, MemoryRole::Gradients, MemoryRole::Optimizer, MemoryRole::Activations,
                        MemoryRole::Temporary, MemoryRole::Backward, MemoryRole::Unknown});
  const auto unknown = static_cast<double>(measured.of(MemoryRole::Unknown));
  if (!measured.at_peak)
    text +=
        "Without a history the parts are those of the moment, not of the peak: record from the start with "
        "torch.cuda.memory._record_memory_history().\n";
  if (all > 0 && unknown > kMuchUnknown * all)
    text += fmt::format(
        "{} have no frames that tell their use: call torch.cuda.memory._record_memory_history() before the model is "
        "made.\n",
        percent(unknown / all));
  return text;
}

}  // namespace

std::string_view name_of(MemoryRole role) { return kRoleNames[at(role)]; }

std::vector<MemoryRow> memory_rows(const MeasuredMemory& measured, const PredictedMemory* predicted) {
  std::vector<MemoryRow> rows;
  const auto add = [&](std::string part, std::optional<double> bytes, std::optional<double> expected, bool total) {
    if (bytes.value_or(0) == 0 && expected.value_or(0) == 0) return;
    rows.push_back({std::move(part), bytes, expected, total});
  };
  const auto of_prediction = [&](auto value) { return predicted ? std::optional<double>(value(*predicted)) : std::nullopt; };
  // Without a history the moment's tensors are not the peak's.
  add("allocated", allocated_of(measured), of_prediction([](const PredictedMemory& of) { return of.allocated; }), true);
  add("reserved", reserved_of(measured), of_prediction([](const PredictedMemory& of) { return of.reserved; }), true);
  if (!measured.has_roles()) return rows;
  const auto part = [&](std::string name, std::initializer_list<MemoryRole> roles, std::initializer_list<MemoryUse> uses,
                        bool lasting) {
    const auto expected = of_prediction([&](const PredictedMemory& of) { return sum_of(of, uses); });
    add(std::move(name), sum_of(measured, roles), lasting || measured.at_peak ? expected : std::nullopt, false);
  };
  part("parameters", {MemoryRole::Parameters}, {MemoryUse::Parameters}, true);
  part("optimizer", {MemoryRole::Optimizer}, {MemoryUse::Optimizer}, true);
  if (measured.of(MemoryRole::Backward) == 0) {
    part("gradients", {MemoryRole::Gradients}, {MemoryUse::Gradients, MemoryUse::GradientBuckets}, false);
    part("activations and temporaries", {MemoryRole::Activations, MemoryRole::Temporary},
         {MemoryUse::Activations, MemoryUse::Temporary, MemoryUse::BoundaryBuffers}, false);
  } else {
    // Blocks of autograd's threads are gradients of parameters or others.
    part("activations, gradients, temporaries",
         {MemoryRole::Activations, MemoryRole::Temporary, MemoryRole::Gradients, MemoryRole::Backward},
         {MemoryUse::Activations, MemoryUse::Temporary, MemoryUse::BoundaryBuffers, MemoryUse::Gradients,
          MemoryUse::GradientBuckets},
         false);
    add("of these, made in the backward", sum_of(measured, {MemoryRole::Gradients, MemoryRole::Backward}), std::nullopt, false);
  }
  if (measured.of(MemoryRole::Unknown) > 0)
    rows.push_back({"unknown", static_cast<double>(measured.of(MemoryRole::Unknown)), std::nullopt, false});
  return rows;
}

std::vector<MemoryRow> named_rows(const std::vector<MemoryRow>& rows) {
  double all = 0;
  for (const MemoryRow& row : rows)
    if (row.total) all = std::max(all, row.predicted.value_or(0));
  std::vector<MemoryRow> named;
  for (const MemoryRow& row : rows) {
    if (!row.is_compared()) continue;
    const double difference = std::abs(row.difference());
    if (difference > kNamedDifference * *row.predicted && difference > kLeastShare * all) named.push_back(row);
  }
  std::stable_sort(named.begin(), named.end(),
                   [](const MemoryRow& a, const MemoryRow& b) { return std::abs(a.difference()) > std::abs(b.difference()); });
  return named;
}

std::string memory_table(const MeasuredMemory& measured, const PredictedMemory* predicted) {
  const std::vector<MemoryRow> rows = memory_rows(measured, predicted);
  std::string text = predicted ? named_text(rows) + fmt::format("\nprediction of device {}\n", predicted->device) : "";
  text += facts_text(measured) + "\n" + rows_text(rows, predicted != nullptr);
  return text + holders_text(measured) + segments_text(measured) + "\n" + remarks_text(measured);
}

std::string memory_json(const MeasuredMemory& measured, const PredictedMemory* predicted) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-memory/1").field("source", measured.source);
  out.field("device", measured.device).field("events", measured.events).field("segments", measured.segments);
  out.field("retries", measured.retries).field("out_of_memory", measured.out_of_memory);
  out.field("allocated_bytes", measured.allocated).field("requested_bytes", measured.requested);
  out.field("reserved_bytes", measured.reserved).field("inactive_split_bytes", measured.inactive_split);
  out.field("peak_allocated_bytes", measured.peak_allocated).field("peak_requested_bytes", measured.peak_requested);
  out.field("peak_reserved_bytes", measured.peak_reserved).field("allocator_settings", measured.settings);
  out.field("parts_of", measured.at_peak ? "peak" : "moment");
  if (predicted) out.field("predicted_device", predicted->device);
  out.key("parts").list(JsonLayout::Lines);
  for (const MemoryRow& row : memory_rows(measured, predicted)) {
    out.object().field("part", row.part).field("measured_bytes", row.measured);
    if (predicted) out.field("predicted_bytes", row.predicted);
    out.end();
  }
  out.end().key("holders").list(JsonLayout::Lines);
  for (const MemoryHolder& holder : measured.holders)
    out.object()
        .field("place", holder.place)
        .field("role", name_of(holder.role))
        .field("bytes", holder.bytes)
        .field("blocks", holder.blocks)
        .end();
  out.end().key("largest_segments").list(JsonLayout::Lines);
  for (const LargeSegment& segment : measured.largest)
    out.object()
        .field("bytes", segment.bytes)
        .field("allocated_bytes", segment.allocated)
        .field("largest_gap_bytes", segment.largest_gap)
        .field("blocks", segment.blocks)
        .field("stream", segment.stream)
        .end();
  return out.end().end().finish();
}

}  // namespace panpipe::jobs
