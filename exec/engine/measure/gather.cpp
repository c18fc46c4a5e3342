#include "exec/engine/measure/gather.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace panpipe::exec {
namespace {

using nlohmann::json;

json to_json(const Span& span) {
  return json::array({static_cast<int>(span.lane), static_cast<int>(span.action.kind), span.action.stage, span.action.microbatch,
                      span.label, span.peer, span.start.base(), span.end.base(), span.bytes.base(), span.flow_id});
}

Span from_json(const json& row, int device) {
  Span span;
  span.device = device;
  span.lane = static_cast<Lane>(row[0].get<int>());
  span.action.kind = static_cast<ActionKind>(row[1].get<int>());
  span.action.stage = row[2];
  span.action.microbatch = row[3];
  span.label = row[4];
  span.peer = row[5];
  span.start = Duration(row[6].get<double>());
  span.end = Duration(row[7].get<double>());
  span.bytes = Bytes(row[8].get<std::int64_t>());
  span.flow_id = row[9];
  return span;
}

}  // namespace

Timeline gather_timeline(const PreparedRun& run, Transport& transport, const std::vector<StepResult>& steps) {
  json mine = json::array();
  for (const StepResult& step : steps) {
    json spans = json::array();
    for (const Span& span : step.spans) spans.push_back(to_json(span));
    mine.push_back({{"loss", step.loss_sum}, {"spans", std::move(spans)}});
  }
  const std::vector<std::uint8_t> bytes = json::to_cbor(mine);
  const std::vector<std::string> all =
      transport.all_gather(std::string(bytes.begin(), bytes.end()), std::chrono::seconds(60), "the spans of all ranks");
  Timeline timeline;
  timeline.kind = TimelineKind::Measured;
  if (transport.rank() != 0) return timeline;

  std::vector<json> ranks;
  for (const std::string& text : all) ranks.push_back(json::from_cbor(text));
  std::vector<std::pair<double, std::size_t>> times;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    MeasuredStep step;
    double end = 0;
    for (const json& rank : ranks) {
      step.loss += rank[s]["loss"].get<double>();
      for (const json& span : rank[s]["spans"]) end = std::max(end, span[7].get<double>());
    }
    step.loss /= static_cast<double>(run.layout.microbatches) * run.plan.data;
    step.step_time = Duration(end);
    timeline.steps.push_back(step);
    times.emplace_back(end, s);
  }
  std::sort(times.begin(), times.end());
  const auto [median, chosen] = times[(times.size() - 1) / 2];
  timeline.step_time = Duration(median);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    DeviceTimeline device;
    device.device = static_cast<std::int32_t>(rank);
    device.rank = static_cast<std::int32_t>(rank) / run.plan.data;
    timeline.devices.push_back(device);
    for (const json& span : ranks[rank][chosen]["spans"]) timeline.spans.push_back(from_json(span, device.device));
  }
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.device, a.lane, a.start) < std::tuple(b.device, b.lane, b.start);
  });
  timeline.samples_per_step = static_cast<double>(run.experiment.scenario.micro) * run.layout.microbatches * run.plan.data;
  timeline.model_flops_per_step = run.experiment.workload.model_flops * timeline.samples_per_step;
  return timeline;
}

}  // namespace panpipe::exec
