#include "planner/piper/label_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel_for.hpp"

namespace panpipe::planner::piper {
namespace {

// Fewer suffixes are done before a second thread has started.
constexpr std::size_t kWorthThreads = 64;

// Least units that can serve `work` in `limit` each.
int at_least(double work, double limit) {
  return limit == kInfinity ? 0 : static_cast<int>(std::ceil(work / limit * (1 - kRounding) - kRounding));
}

int in_flight_of(const Label& label) { return (label.replicas + label.data - 1) / label.data; }

}  // namespace

bool LabelSearch::leaves_devices(std::size_t suffix, const Label& label) const {
  return costs_.front().devices(suffix, label.replicas, limit_) * (1 - kRounding) <= costs_.problem().devices - label.devices;
}

double LabelSearch::load(const Extension& stage, const Label& label) const {
  return costs_.load(stage.cut, stage.base, label.data, in_flight_of(label), limit_);
}

void LabelSearch::label(std::size_t outer, Counts& counts) {
  const double whole = costs_.device_time()[outer];
  const int most = most_devices_[outer] - costs_.data_degrees().front();
  for (const Band& band : bands_) {
    auto inner = std::lower_bound(alive_.begin(), alive_.end(), whole - band.most,
                                  [](const Alive& a, double time) { return a.device_time < time; });
    for (; inner != alive_.end() && inner->device_time <= whole - band.least && !must_stop(); ++inner)
      if (inner->devices <= most && costs_.suffixes().within(inner->suffix, outer)) stage_between(outer, *inner, counts);
  }
}

void LabelSearch::stage_between(std::size_t outer, const Alive& inner, Counts& counts) {
  const std::vector<int>& data = costs_.data_degrees();
  for (std::size_t way = 0; way < costs_.ways(); ++way) {
    const Cut cut{outer, inner.suffix, way};
    const int tensor = costs_.tensor(way), most = (most_devices_[outer] - inner.devices) / tensor;
    const StageBase base = most < data.front() ? StageBase{} : costs_.base(cut, most * limit_);
    if (!base.offered || base.time * (1 - kRounding) > most * limit_) {
      ++counts.pruned;
      continue;
    }
    ++counts.evaluated;
    const std::size_t first = fewest_replicas(base);
    if (first == data.size()) continue;
    for (std::size_t behind = 0; behind < std::max<std::size_t>(1, stages_); ++behind) {
      const Labels& list = labels(cut.inner, behind);
      const int most_behind = most_devices_[outer] - data[first] * tensor;
      for (std::size_t i = 0; i < list.size() && list[i].devices <= most_behind; ++i)
        extend({cut, base, first, list[i], static_cast<std::uint32_t>(i)}, labels(outer, stages_ == 0 ? 0 : behind + 1), counts);
    }
  }
}

// (time + (d - 1) r) / d <= T  <=>  time - r <= d (T - r).
std::size_t LabelSearch::fewest_replicas(const StageBase& base) const {
  const std::vector<int>& data = costs_.data_degrees();
  if (base.time <= limit_) return 0;
  if (base.reduction >= limit_) return data.size();
  const double least = (base.time - base.reduction) / (limit_ - base.reduction) * (1 - kRounding);
  return static_cast<std::size_t>(std::lower_bound(data.begin(), data.end(), least) - data.begin());
}

// A stage on c devices takes at most c T device time, and at least what leaves enough devices for all other layers; so the
// device time of a stage lies in one of these bands.
void LabelSearch::find_bands() {
  const PlanningProblem& problem = costs_.problem();
  const double whole = costs_.device_time().back();
  bands_.clear();
  if (limit_ == kInfinity) {
    bands_.push_back({-1, kInfinity});
    return;
  }
  const double spare = problem.devices * limit_ - whole, give = kRounding * (whole + limit_);
  std::vector<int> sizes;
  for (const int d : costs_.data_degrees())
    for (const int t : problem.degrees)
      if (d <= problem.devices / t) sizes.push_back(d * t);
  std::sort(sizes.begin(), sizes.end());
  for (const int size : sizes) {
    const Band band{size * limit_ - spare - give, size * limit_ + give};
    if (!bands_.empty() && band.least <= bands_.back().most)
      bands_.back().most = band.most;
    else
      bands_.push_back(band);
  }
}

void LabelSearch::prepare() {
  const PlanningProblem& problem = costs_.problem();
  const auto &device = costs_.device_time(), &replica = costs_.replica_time();
  labels_.resize(device.size() * (stages_ + 1));
  for (Labels& list : labels_) list.clear();
  most_devices_.resize(device.size());
  most_replicas_.resize(device.size());
  for (std::size_t set = 0; set < device.size(); ++set) {
    most_devices_[set] = problem.devices - at_least(device.back() - device[set], limit_);
    most_replicas_[set] = std::min(problem.devices, problem.microbatches) - at_least(replica.back() - replica[set], limit_);
  }
  labels_[0].push_back({});
  alive_.assign(1, Alive{});
  find_bands();
}

// Merges the suffixes of a level that have labels into those of the levels before.
void LabelSearch::add_alive(std::size_t first, std::size_t end) {
  const auto before = [](const Alive& a, const Alive& b) {
    return std::pair(a.device_time, a.suffix) < std::pair(b.device_time, b.suffix);
  };
  const auto old = static_cast<std::ptrdiff_t>(alive_.size());
  for (std::size_t set = first; set < end; ++set) {
    int fewest = std::numeric_limits<int>::max();
    for (std::size_t count = 0; count <= stages_; ++count)
      if (!labels(set, count).empty()) fewest = std::min(fewest, labels(set, count).front().devices);
    if (fewest < std::numeric_limits<int>::max())
      alive_.push_back({costs_.device_time()[set], static_cast<std::uint32_t>(set), fewest});
  }
  std::sort(alive_.begin() + old, alive_.end(), before);
  std::inplace_merge(alive_.begin(), alive_.begin() + old, alive_.end(), before);
}

// Level by level: suffixes of one size do not depend on each other.
std::optional<double> LabelSearch::reach(double limit, const std::atomic<bool>* stop) {
  limit_ = limit;
  stop_ = stop;
  stopped_ = false;
  prepare();
  const Suffixes& suffixes = costs_.suffixes();
  for (std::size_t first = 1, end = 1; first < suffixes.size() && !stopped_; first = end) {
    while (end < suffixes.size() && suffixes.layers_in(end) == suffixes.layers_in(first)) ++end;
    const int threads = end - first < kWorthThreads ? 1 : std::max(1, threads_);
    std::vector<Counts> counts(static_cast<std::size_t>(threads));
    parallel_for(end - first, threads, [&](std::size_t i, std::size_t worker) { label(first + i, counts[worker]); });
    for (const Counts& each : counts) {
      counts_.evaluated += each.evaluated;
      counts_.pruned += each.pruned;
    }
    add_alive(first, end);
    stopped_ = must_stop();
  }
  if (stopped_ || labels_.back().empty()) return std::nullopt;
  return best()->value;
}

Labels::const_iterator LabelSearch::best() const {
  const Labels& whole = labels_.back();  // after as many stages as are stated
  return std::min_element(whole.begin(), whole.end(), [](const Label& a, const Label& b) { return a.value < b.value; });
}

std::vector<StageChoice> LabelSearch::stages() const {
  std::vector<StageChoice> stages;
  std::size_t suffix = costs_.suffixes().size() - 1, count = stages_;
  for (const Label* label = &*best(); suffix != 0;) {
    stages.push_back(costs_.stage({suffix, label->from, label->way}, label->data, in_flight_of(*label)));
    suffix = label->from;
    if (count > 0) --count;
    label = &labels(suffix, count)[label->from_label];
  }
  return stages;
}

}  // namespace panpipe::planner::piper
