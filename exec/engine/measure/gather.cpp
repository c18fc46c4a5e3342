#include "exec/engine/measure/gather.hpp"

#include <algorithm>
#include <map>

#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/step_work.hpp"
#include "exec/engine/measure/gathered.hpp"
#include "exec/engine/measure/span_columns.hpp"
#include "exec/engine/mesh.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

constexpr std::size_t kCurvePoints = 1024;  // of a device's memory curve in the result

// Keeps the largest of each stretch of changes, so that no peak is lost.
json thinned(const std::vector<MemoryAccount::Sample>& samples, Clock::time_point zero) {
  json rows = json::array();
  const std::size_t stretch = std::max<std::size_t>(1, samples.size() / kCurvePoints);
  for (std::size_t first = 0; first < samples.size(); first += stretch) {
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(stretch, samples.size() - first));
    const auto largest = std::max_element(begin, end, [](const auto& a, const auto& b) { return a.live < b.live; });
    rows.push_back({std::chrono::duration<double>(largest->at - zero).count(), largest->live});
  }
  return rows;
}

json to_json(const StepResult& step, const ClockReadings& clock) {
  json kept = json::array();
  for (const MemoryPart& part : step.kept) kept.push_back({std::string(name_of(part.use)), part.bytes.base()});
  const double started = std::chrono::duration<double>(step.started.time_since_epoch()).count();
  return {
      {"loss", step.loss_sum},           {"started", started - offset_at(clock.first, clock.last, started)},  // on rank 0's clock
      {"spans", columns_of(step.spans)}, {"before", step.memory.before},
      {"peak", step.memory.peak},        {"reserved", step.memory.reserved},
      {"kept", std::move(kept)},         {"curve", thinned(step.memory.samples, step.started)}};
}

// A step of all ranks: when it began and ended, and how long it took.
struct WholeStep {
  double zero = 0, end = 0, duration = 0, loss = 0;
};

WholeStep whole(const std::vector<json>& ranks, std::size_t s, double losses) {
  WholeStep step;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const json& rank = ranks[r]["steps"][s];
    const double started = rank["started"];
    step.zero = r == 0 ? started : std::min(step.zero, started);
    for (const Span& span : spans_of(rank["spans"], static_cast<int>(r)))
      step.end = std::max(step.end, started + span.end.base());
    step.loss += rank["loss"].get<double>() / losses;
  }
  step.duration = std::max(0.0, step.end - step.zero);
  return step;
}

DeviceTimeline device_of(const json& rank, int device, int position, Duration shift, Bytes limit) {
  DeviceTimeline result;
  result.device = device;
  result.rank = position;
  result.limit = limit;
  result.allocated = Bytes(rank["peak"].get<std::int64_t>());
  result.reserved = result.peak = Bytes(rank["reserved"].get<std::int64_t>());
  result.memory.push_back({Duration(0), Bytes(rank["before"].get<std::int64_t>())});
  for (const json& sample : rank["curve"])
    result.memory.push_back({Duration(sample[0].get<double>()) + shift, Bytes(sample[1].get<std::int64_t>())});
  Bytes rest = result.allocated;
  for (const json& part : rank["kept"]) {
    // Kept memory may be allocated in the step, after the peak (gradients, the optimizer's state of a first step).
    const Bytes bytes = std::min(Bytes(part[1].get<std::int64_t>()), rest);
    result.static_parts.push_back({memory_use_named(part[0].get<std::string>()).value(), bytes});
    rest -= bytes;
  }
  result.peak_parts = result.static_parts;
  result.peak_parts.push_back({MemoryUse::Activations, rest});
  if (result.reserved > result.allocated)
    result.peak_parts.push_back({MemoryUse::Fragmentation, result.reserved - result.allocated});
  return result;
}

void add_rank(Timeline& timeline, const json& rank, int r, const PreparedRun& run, double zero) {
  const Plan& plan = run.plan;
  const auto device_of_rank = [&](int world) {
    const MeshPlace place = place_of(plan, world);
    return plan.devices.empty() ? world : plan.device(place.position, place.replica, place.shard);
  };
  const int device = device_of_rank(r);
  const Duration shift(rank["started"].get<double>() - zero);
  const Scenario& scenario = run.experiment.scenario;
  const Bytes limit = memory_limit(scenario, scenario.cluster.type_of(device));
  timeline.devices.push_back(device_of(rank, device, place_of(plan, r).position, shift, limit));
  for (Span& span : spans_of(rank["spans"], r)) {
    span.start += shift;
    span.end += shift;
    span.device = device;
    if (span.peer >= 0) span.peer = device_of_rank(span.peer);
    timeline.spans.push_back(std::move(span));
  }
}

}  // namespace

void join_transfers(std::vector<Span>& spans) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Span*> sent;
  for (Span& span : spans)
    if (span.lane == Lane::Send && span.flow_id >= 0) sent[{span.device, span.peer, span.flow_id}] = &span;
  std::int32_t next = 0;
  for (Span& span : spans) {
    if (span.lane != Lane::Receive || span.flow_id < 0) continue;
    const auto found = sent.find({span.peer, span.device, span.flow_id});
    if (found == sent.end()) continue;
    Span& send = *found->second;
    // Posted after it had arrived: it travelled all the same.
    if (span.end <= span.start || span.start < send.start) span.start = send.start;
    span.end = std::max(span.end, span.start);  // clocks agree up to their error
    send.end = span.end;
    send.flow_id = span.flow_id = next++;
    sent.erase(found);
  }
  for (const auto& [key, send] : sent) send->flow_id = -1;  // nobody took it
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.device, a.lane, a.start) < std::tuple(b.device, b.lane, b.start);
  });
}

Timeline gather_timeline(const PreparedRun& run, Transport& transport, const std::vector<StepResult>& steps,
                         const ClockReadings& clock) {
  json mine = {{"clock_error", std::max(clock.first.error, clock.last.error)}, {"steps", json::array()}};
  for (const StepResult& step : steps) mine["steps"].push_back(to_json(step, clock));
  const std::vector<json> ranks = gathered(transport, mine, std::chrono::seconds(60), "the spans of all ranks", 0);
  Timeline timeline;
  timeline.kind = TimelineKind::Measured;
  if (transport.rank() != 0 || steps.empty()) return timeline;

  std::vector<std::pair<double, std::size_t>> times;
  std::vector<WholeStep> whole_steps;
  const bool rolls = rolling_of(run.plan.schedule) != Rolling::None;  // then a step takes from the end of the one before it
  for (std::size_t s = 0; s < steps.size(); ++s) {
    whole_steps.push_back(whole(ranks, s, static_cast<double>(run.layout.microbatches) * run.plan.data));
    if (rolls && s > 0 && whole_steps[s].zero < whole_steps[s - 1].end)  // else ranks waited for each other in between
      whole_steps[s].duration = std::max(0.0, whole_steps[s].end - whole_steps[s - 1].end);
    timeline.steps.push_back({whole_steps.back().loss, Duration(whole_steps.back().duration)});
    times.emplace_back(whole_steps.back().duration, s);
  }
  std::sort(times.begin(), times.end());
  const auto [median, chosen] = times[(times.size() - 1) / 2];
  timeline.step_time = Duration(median);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    add_rank(timeline, ranks[r]["steps"][chosen], static_cast<int>(r), run, whole_steps[chosen].zero);
    timeline.clock_error = std::max(timeline.clock_error, Duration(ranks[r]["clock_error"].get<double>()));
  }
  std::sort(timeline.devices.begin(), timeline.devices.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  join_transfers(timeline.spans);
  const StepWork work = step_work(run.experiment.scenario, run.plan, ModelCosts(run.experiment.model, run.plan));
  timeline.samples_per_step = work.samples;
  timeline.trained_parameters = run.experiment.workload.trained_parameters;
  timeline.model_flops_per_step = work.model_flops;
  return timeline;
}

}  // namespace panpipe::exec
