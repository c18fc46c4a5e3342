#include "planner/piper/label_search.hpp"

#include <barrier>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "base/index.hpp"

namespace panpipe::planner::piper {
namespace {

// Fewer suffixes are done before a second thread has started.
constexpr std::size_t kWorthThreads = 1500;

// Least units that can serve `work` in `limit` each.
int at_least(double work, double limit) {
  return limit == kInfinity ? 0 : static_cast<int>(std::ceil(work / limit * (1 - kRounding) - kRounding));
}

}  // namespace

// (time + (d - 1) r) / d <= T  <=>  time - r <= d (T - r).
std::size_t LabelSearch::fewest_replicas(const StageBase& base) const {
  const std::vector<int>& data = costs_.data_degrees();
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

void LabelSearch::prepare(double limit, const std::atomic<bool>* stop) {
  limit_ = limit;
  stop_ = stop;
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
  alive_.clear();
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

// Level by level: suffixes of one size do not depend on each other. A level takes microseconds, so the threads last for all.
void LabelSearch::for_each_suffix(const std::function<void(std::size_t outer, Counts& counts)>& label) {
  const Suffixes& suffixes = costs_.suffixes();
  const std::size_t threads = suffixes.size() < kWorthThreads ? 1 : at(std::max(1, threads_));
  std::size_t first = 0, end = 1;  // of the level
  std::atomic<std::size_t> next{0};
  // The first failure ends the walk for all, so that no worker waits at the barrier for one that is gone.
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  const auto guarded = [&](const auto& body) noexcept {
    try {
      body();
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  const auto finish_level = [&]() noexcept {
    guarded([&] { add_alive(first, end); });
    stopped_ = failed || must_stop();
    for (first = end; end < suffixes.size() && suffixes.layers_in(end) == suffixes.layers_in(first);) ++end;
    next = first;
  };
  finish_level();
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads), finish_level);
  std::vector<Counts> counts(threads);
  const auto work = [&](std::size_t worker) {
    Counts own;
    while (first < end && !stopped_) {
      guarded([&] {
        for (std::size_t set = next++; set < end && !failed; set = next++) label(set, own);
      });
      barrier.arrive_and_wait();
    }
    counts[worker] = own;
  };
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  for (std::size_t worker = 1; worker < threads; ++worker) {
    try {
      helpers.emplace_back(work, worker);
    } catch (...) {
      barrier.arrive_and_drop();  // the machine has no more threads, or no room for one: fewer do it
    }
  }
  work(0);
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
  for (const Counts& each : counts) {
    counts_.evaluated += each.evaluated;
    counts_.pruned += each.pruned;
  }
}

Labels::const_iterator LabelSearch::best() const {
  const Labels& whole = labels_.back();  // after as many stages as are stated
  return std::min_element(whole.begin(), whole.end(), [](const Label& a, const Label& b) { return a.value < b.value; });
}

std::vector<StageChoice> LabelSearch::stages() const {
  std::vector<StageChoice> stages;
  std::size_t suffix = costs_.suffixes().size() - 1, count = stages_;
  for (const Label* label = &*best(); suffix != 0;) {
    stages.push_back(costs_.stage({suffix, label->from, label->way}, label->data, in_flight(*label)));
    suffix = label->from;
    if (count > 0) --count;
    label = &labels(suffix, count)[label->from_label];
  }
  return stages;
}

}  // namespace panpipe::planner::piper
