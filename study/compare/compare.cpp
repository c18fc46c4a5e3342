#include "study/compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/option_fault.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "study/compare/waits.hpp"

namespace panpipe::study {
namespace {

constexpr std::size_t kWorst = 8;  // actions shown
constexpr const char* kTolerance = "tolerance";

// Devices without a peak rate have no MFU; documents hold a 0 for it.
std::optional<double> value_of(const present::ResultDocument& result, const std::string& name) {
  const std::optional<double> value = result.metric(name);
  return name == "mfu" && value == 0 ? std::nullopt : value;
}

std::string what_is_missing(const present::ResultDocument& result) {
  return result.path +
         ": this result has no timeline, so its actions cannot be compared: make it with the timeline, or compare metrics alone";
}

// An action of a compute lane, without its times, and the device that does it: they show the plan.
using Pass = std::tuple<ActionKind, std::int32_t, std::int32_t, std::int8_t>;
using PlacedPass = std::pair<std::int32_t, Pass>;

std::set<PlacedPass> passes(const Timeline& timeline) {
  std::set<PlacedPass> found;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Compute && span.action.is_compute())
      found.insert({span.device, {span.action.kind, span.action.stage, span.action.microbatch, span.action.split}});
  return found;
}

// Predictions hold the spans of one of the devices of a rank that do the same, measured results those of all: what either
// folded is left out of both.
Timeline without_repeats(const Timeline& timeline, const Timeline& other) {
  std::set<std::int32_t> copies;
  for (const Timeline* each : {&timeline, &other})
    for (const DeviceTimeline& device : each->devices)
      if (device.same_as >= 0) copies.insert(device.device);
  Timeline own = timeline;
  own.spans.erase(
      std::remove_if(own.spans.begin(), own.spans.end(), [&](const Span& span) { return copies.count(span.device) > 0; }),
      own.spans.end());
  return own;
}

// The same whatever devices do it: of replicas and shards that are equal, one.
std::set<Pass> work(const Timeline& timeline) {
  std::set<Pass> found;
  for (const auto& [device, pass] : passes(timeline)) found.insert(pass);
  return found;
}

// The size of a plan, all its devices counted.
std::string size_text(const Timeline& timeline) {
  const auto done = work(timeline);
  std::set<std::int32_t> stages, microbatches;
  for (const auto& [kind, stage, microbatch, split] : done) {
    stages.insert(stage);
    microbatches.insert(microbatch);
  }
  return fmt::format("{} devices, {} stages, {} microbatches, {} passes", timeline.devices.size(), stages.size(),
                     microbatches.size(), done.size());
}

// The first of the passes that the other result does not have; empty where there is none.
template <class InOther>
std::string only_in(const char* name, const std::set<PlacedPass>& own, const InOther& in_other) {
  const auto first = std::find_if_not(own.begin(), own.end(), in_other);
  if (first == own.end()) return "";
  Action action;
  std::tie(action.kind, action.stage, action.microbatch, action.split) = first->second;
  return fmt::format("only {} has {} on device {}", name, to_text(action), first->first);
}

// First whether a pass is done at all, then where, on the devices that neither folded.
std::string difference_of(const Timeline& a, const Timeline& b, const Timeline& own_a, const Timeline& own_b) {
  const std::set<Pass> done_a = work(a), done_b = work(b);
  const std::set<PlacedPass> there_a = passes(own_a), there_b = passes(own_b);
  for (const std::string& found : {only_in("A", passes(a), [&](const PlacedPass& p) { return done_b.contains(p.second); }),
                                   only_in("B", passes(b), [&](const PlacedPass& p) { return done_a.contains(p.second); }),
                                   only_in("A", there_a, [&](const PlacedPass& p) { return there_b.contains(p); }),
                                   only_in("B", there_b, [&](const PlacedPass& p) { return there_a.contains(p); })})
    if (!found.empty()) return found;
  return "";
}

void require_same_plan(const Timeline& a, const Timeline& b, const Timeline& own_a, const Timeline& own_b) {
  const std::string difference = difference_of(a, b, own_a, own_b);
  if (difference.empty()) return;
  throw InputError(fmt::format("these results are of different plans: A has {}; B has {}; {}. Metrics alone can be compared",
                               size_text(a), size_text(b), difference));
}

std::string name_of_span(const Span& span) { return span.label.empty() ? std::string(name_of(span.action.kind)) : span.label; }

void compare_metrics(Comparison& result, const std::vector<Tolerance>& tolerances) {
  std::vector<std::string> names;
  for (const auto* document : {result.a, result.b})
    for (const auto& [name, value] : document->metrics)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  for (const Tolerance& tolerance : tolerances) {
    if (std::find(names.begin(), names.end(), tolerance.metric) != names.end()) continue;
    throw option_fault(kTolerance,
                       fmt::format("these results have no metric '{}'{}", tolerance.metric, suggestion(tolerance.metric, names)),
                       "", code::kUnknownName);
  }
  for (const std::string& name : names) {
    ComparedMetric metric;
    metric.name = name;
    metric.a = value_of(*result.a, name);
    metric.b = value_of(*result.b, name);
    for (const Tolerance& tolerance : tolerances)
      if (tolerance.metric == name) metric.tolerance = tolerance;
    const Metric* known = find_metric(name);
    metric.two_currencies = known != nullptr && known->unit == MetricUnit::Money && result.a->currency != result.b->currency;
    if (metric.a && metric.b && !metric.two_currencies) {
      const double reference = result.reference_is_b ? *metric.b : *metric.a;
      metric.difference = (result.reference_is_b ? *metric.a : *metric.b) - reference;
      if (reference != 0) metric.relative = metric.difference / std::abs(reference);
      if (metric.tolerance) {
        const double off =
            metric.tolerance->relative ? metric.relative.value_or(metric.difference == 0 ? 0 : INFINITY) : metric.difference;
        metric.ok = std::abs(off) <= metric.tolerance->value;
      }
    } else if (metric.tolerance) {
      metric.ok = false;
    }
    result.metrics.push_back(std::move(metric));
  }
}

void compare_classes(Comparison& result, const Timeline& a, const Timeline& b) {
  std::map<std::tuple<Lane, ActionKind, std::string, std::int32_t>, ComparedClass> classes;  // their means are sums at first
  const auto add = [&](const Timeline& timeline, int ComparedClass::*count, double ComparedClass::*sum) {
    for (const Span& span : timeline.spans) {
      if (span.lane == Lane::Send) continue;  // the receive carries the same time
      const auto key = std::tuple(span.lane, span.action.kind, name_of_span(span), span.action.stage);
      ComparedClass& row = classes[key];
      std::tie(row.lane, std::ignore, row.name, row.stage) = key;
      ++(row.*count);
      row.*sum += (span.end - span.start).base();
    }
  };
  add(a, &ComparedClass::count_a, &ComparedClass::mean_a);
  add(b, &ComparedClass::count_b, &ComparedClass::mean_b);
  for (auto& [key, row] : classes) {
    row.total_difference = (result.reference_is_b ? 1 : -1) * (row.mean_a - row.mean_b);
    row.mean_a /= std::max(row.count_a, 1);
    row.mean_b /= std::max(row.count_b, 1);
    result.classes.push_back(std::move(row));
  }
}

void find_worst(Comparison& result, const Timeline& a, const Timeline& b) {
  std::map<std::pair<std::int32_t, std::string>, ComparedAction> actions;
  for (const Span& span : a.spans) {
    if (span.lane != Lane::Compute) continue;
    const std::string action = span.label.empty() ? to_text(span.action) : span.label;
    ComparedAction& row = actions.try_emplace({span.device, action}, ComparedAction{action, span.device, 0, 0}).first->second;
    row.a += (span.end - span.start).base();  // a pass may be drawn in parts
  }
  for (const Span& span : b.spans) {
    if (span.lane != Lane::Compute) continue;
    const auto found = actions.find({span.device, span.label.empty() ? to_text(span.action) : span.label});
    if (found != actions.end()) found->second.b += (span.end - span.start).base();
  }
  for (const auto& [key, action] : actions) result.worst.push_back(action);
  std::stable_sort(result.worst.begin(), result.worst.end(),
                   [](const ComparedAction& x, const ComparedAction& y) { return std::abs(x.a - x.b) > std::abs(y.a - y.b); });
  if (result.worst.size() > kWorst) result.worst.resize(kWorst);
}

void compare_waits(Comparison& result, const Timeline& a, const Timeline& b) {
  std::map<WaitKey, ComparedWait> rows;
  const auto row = [&](const WaitKey& key) -> ComparedWait& {
    ComparedWait& wait = rows[key];
    std::tie(wait.device, wait.reason, wait.peer) = key;
    return wait;
  };
  for (const auto& [key, wait] : waits_of(a)) std::tie(row(key).a, row(key).transit_a) = std::tie(wait.idle, wait.transit);
  for (const auto& [key, wait] : waits_of(b)) std::tie(row(key).b, row(key).transit_b) = std::tie(wait.idle, wait.transit);
  for (const auto& [key, wait] : rows) result.waits.push_back(wait);
  std::stable_sort(result.waits.begin(), result.waits.end(), [](const ComparedWait& x, const ComparedWait& y) {
    return x.device != y.device ? x.device < y.device : std::max(x.a, x.b) > std::max(y.a, y.b);
  });
}

std::optional<bool> lies_inside(const present::ResultDocument& measured, const present::ResultDocument& predicted) {
  const auto low = predicted.metric("step_time_p10_s"), high = predicted.metric("step_time_p90_s");
  const double step = measured.metric("step_time_s").value_or(0);
  if (high.value_or(0) <= 0) return std::nullopt;
  return low.value_or(0) <= step && step <= *high;
}

}  // namespace

Tolerance parse_tolerance(const std::string& text) {
  const std::size_t equals = text.find('=');
  const InputError fault = option_fault(
      kTolerance, fmt::format("'{}' is no limit of a metric: write METRIC=3% or METRIC=0.02, for example step_time_s=3%", text));
  if (equals == std::string::npos || equals == 0) throw fault;
  Tolerance tolerance;
  tolerance.metric = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  tolerance.relative = value.find('%') != std::string::npos;
  const Parsed<double> parsed = tolerance.relative ? parse_fraction(value) : parse_number(value);
  if (!parsed.value || *parsed.value < 0) throw fault;
  tolerance.value = *parsed.value;
  const Metric* metric = find_metric(tolerance.metric);
  if (!tolerance.relative && tolerance.value > 1 && metric != nullptr && metric->unit == MetricUnit::Share)
    throw option_fault(
        kTolerance,
        fmt::format("{} is a share, and {} would be {:g} % of the whole; write {}={}% for a difference of that many per cent",
                    tolerance.metric, value, 100 * tolerance.value, tolerance.metric, value));
  return tolerance;
}

bool Comparison::ok() const {
  return std::all_of(metrics.begin(), metrics.end(), [](const ComparedMetric& metric) { return metric.ok; });
}

Comparison compare(const present::ResultDocument& a, const present::ResultDocument& b, const std::vector<Tolerance>& tolerances,
                   bool metrics_only) {
  Comparison result;
  result.a = &a;
  result.b = &b;
  result.reference_is_b = b.measured() && !a.measured();
  if (a.measured() != b.measured()) result.inside = a.measured() ? lies_inside(a, b) : lies_inside(b, a);
  compare_metrics(result, tolerances);
  if (metrics_only) return result;
  for (const present::ResultDocument* document : {&a, &b})
    if (!document->has_timeline) throw InputError(what_is_missing(*document));
  const Timeline own_a = without_repeats(a.timeline, b.timeline), own_b = without_repeats(b.timeline, a.timeline);
  require_same_plan(a.timeline, b.timeline, own_a, own_b);
  compare_classes(result, own_a, own_b);
  find_worst(result, own_a, own_b);
  compare_waits(result, own_a, own_b);
  return result;
}

}  // namespace panpipe::study
