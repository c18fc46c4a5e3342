#include "study/report/traffic.hpp"

#include <algorithm>
#include <map>

#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe::study {
namespace {

using Lanes = std::map<Lane, std::vector<Interval>>;

bool is_traffic(Lane lane) {
  return lane == Lane::Tensor || lane == Lane::Send || lane == Lane::Receive || lane == Lane::Data || lane == Lane::Copy ||
         lane == Lane::Vocabulary;
}

double outside(const std::vector<Interval>& lane, const std::vector<Interval>& compute) {
  return length(lane) - common_length(lane, compute);
}

std::vector<Interval> both(std::vector<Interval> a, const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return united(std::move(a));
}

// Communication as metrics count it, all lanes together.
double all_outside(Lanes& lanes, const std::vector<Interval>& compute) {
  std::vector<Interval> all;
  for (const Lane lane : {Lane::Tensor, Lane::Send, Lane::Receive, Lane::Data, Lane::Vocabulary})
    all.insert(all.end(), lanes[lane].begin(), lanes[lane].end());
  return outside(united(std::move(all)), compute);
}

}  // namespace

Traffic traffic_of(const present::ResultDocument& result) {
  Traffic traffic;
  std::map<std::int32_t, Lanes> devices;
  std::map<std::pair<std::int32_t, Lane>, LaneTraffic> sums;
  const std::optional<RolledSteps> rolled = rolled_steps(result.timeline);
  const int steps = rolled ? rolled->steps : 1;
  for (const Span& span : result.timeline.spans) {
    const Lane lane = counted_lane(span.lane, span.action.kind);
    Interval part = {span.start.base(), span.end.base()};
    bool counts = true;
    if (rolled) {  // the window of its device, to which what ends in it belongs
      const Interval& window = rolled->windows.at(span.device);
      counts = part.end > window.start && part.end <= window.end;
      part = {std::max(part.start, window.start), std::min(part.end, window.end)};
    }
    if (part.end > part.start || !rolled) devices[span.device][lane].push_back(part);
    if (!is_traffic(lane) || !counts) continue;
    LaneTraffic& sum = sums[{span.device, lane}];
    ++sum.count;
    sum.bytes += span.bytes.base();
  }
  for (const DeviceMetrics& row : result.per_device) {
    const auto own = devices.find(row.device);
    if (own == devices.end()) continue;
    Lanes& lanes = own->second;
    for (auto& [lane, intervals] : lanes) intervals = united(std::move(intervals));
    const std::vector<Interval>& compute = lanes[Lane::Compute];
    // Waits inside passes are in the metrics, not in the spans.
    const double inside = std::max(0.0, steps * row.exposed_communication_s - all_outside(lanes, compute));
    traffic.tensor += inside + outside(lanes[Lane::Tensor], compute);
    traffic.pipeline += outside(both(lanes[Lane::Send], lanes[Lane::Receive]), compute);
    traffic.data += outside(lanes[Lane::Data], compute);
    for (auto sum = sums.lower_bound({row.device, Lane{}}); sum != sums.end() && sum->first.first == row.device; ++sum) {
      LaneTraffic lane = sum->second;
      lane.device = row.device;
      lane.rank = row.rank;
      lane.lane = sum->first.second;
      lane.count = (lane.count + steps / 2) / steps;
      lane.bytes /= steps;
      lane.busy = length(lanes[lane.lane]) / steps;
      lane.exposed = (outside(lanes[lane.lane], compute) + (lane.lane == Lane::Tensor ? inside : 0)) / steps;
      traffic.lanes.push_back(lane);
    }
  }
  const double count = static_cast<double>(std::max<std::size_t>(devices.size(), 1)) * steps;
  traffic.tensor /= count;
  traffic.pipeline /= count;
  traffic.data /= count;
  return traffic;
}

}  // namespace panpipe::study
