#include "planner/piper/threshold.hpp"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <thread>

namespace panpipe::planner::piper {
namespace {

// Fewer suffixes are done before a second thread has started.
constexpr std::size_t kWorthThreads = 1500;

// Least units that can serve `work` in `limit` each.
int at_least(double work, double limit) {
  return limit == kInfinity ? 0 : static_cast<int>(std::ceil(work / limit * (1 - kRounding) - kRounding));
}

}  // namespace

// Labels of one suffix at a time, from those of the suffixes inside it.
class Threshold::Worker {
 public:
  explicit Worker(Threshold& round)
      : round_(round), costs_(round.costs_), suffixes_(round.costs_.suffixes()), data_(round.costs_.data_degrees()) {}

  void label(std::size_t outer) {
    outer_ = outer;
    const std::vector<Alive>& alive = round_.alive_;
    const double whole = costs_.device_time()[outer];
    const int most = round_.most_devices_[outer] - data_.front();
    for (const Band& band : round_.bands_) {
      auto inner = std::lower_bound(alive.begin(), alive.end(), whole - band.most,
                                    [](const Alive& a, double time) { return a.device_time < time; });
      for (; inner != alive.end() && inner->device_time <= whole - band.least && !round_.must_stop(); ++inner)
        if (inner->devices <= most && suffixes_.within(inner->suffix, outer)) stage_between(*inner);
    }
  }

  Counts counts;

 private:
  void stage_between(const Alive& inner) {
    for (std::size_t g = 0; g < costs_.problem().degrees.size(); ++g) {
      const Cut cut{outer_, inner.suffix, g};
      const int tensor = costs_.problem().degrees[g];
      const int most = (round_.most_devices_[outer_] - inner.devices) / tensor;
      if (most < data_.front() || (!costs_.has_bases() && costs_.fastest(cut) > most * round_.limit_)) {
        ++counts.pruned;
        continue;
      }
      const StageBase base = costs_.base(cut);
      if (!base.offered || base.time * (1 - kRounding) > most * round_.limit_) {
        ++counts.pruned;
        continue;
      }
      ++counts.evaluated;
      const std::size_t first = fewest_replicas(base);
      if (first == data_.size()) continue;
      if (round_.stages_ == 0) put_before(cut, base, tensor, first, 0, 0);
      for (std::size_t behind = 0; behind < round_.stages_; ++behind) put_before(cut, base, tensor, first, behind, behind + 1);
    }
  }

  // The stage before all labels of one list of the inner suffix, into a list of the outer one.
  void put_before(const Cut& cut, const StageBase& base, int tensor, std::size_t first, std::size_t from, std::size_t into) {
    const auto& labels = round_.labels(cut.inner, from);
    front_ = &round_.labels_[outer_ * (round_.stages_ + 1) + into];
    const int most_behind = round_.most_devices_[outer_] - data_[first] * tensor;
    for (std::size_t i = 0; i < labels.size() && labels[i].devices <= most_behind; ++i)
      extend(cut, base, tensor, first, labels[i], static_cast<std::uint32_t>(i));
  }

  // Index of the least data degree whose load can be within the limit, memory aside:
  // (time + (d - 1) r) / d <= T  <=>  time - r <= d (T - r).
  std::size_t fewest_replicas(const StageBase& base) const {
    if (base.time <= round_.limit_) return 0;
    if (base.reduction >= round_.limit_) return data_.size();
    const double least = (base.time - base.reduction) / (round_.limit_ - base.reduction) * (1 - kRounding);
    return static_cast<std::size_t>(std::lower_bound(data_.begin(), data_.end(), least) - data_.begin());
  }

  // The least data degree that works is the best one: more replicas only use more devices and leave more in flight before.
  void extend(const Cut& cut, const StageBase& base, int tensor, std::size_t first, const Label& behind, std::uint32_t index) {
    const int most_devices = round_.most_devices_[outer_], most_replicas = round_.most_replicas_[outer_];
    for (std::size_t i = first; i < data_.size(); ++i) {
      const int d = data_[i];
      const int devices = behind.devices + d * tensor, replicas = behind.replicas + d;
      if (devices > most_devices || replicas > most_replicas || beaten(devices, replicas, behind.slowest)) return;
      if (round_.front_.devices(cut.outer, replicas, round_.limit_) * (1 - kRounding) > spare(devices)) {
        ++counts.pruned;
        return;
      }
      const int in_flight = (replicas + d - 1) / d;
      const double load = costs_.load(cut, base, d, in_flight, round_.limit_);
      if (load > round_.limit_ || load == kInfinity) continue;
      insert({devices, replicas, std::max(load, behind.slowest), static_cast<std::uint32_t>(cut.inner), index, d,
              static_cast<std::uint16_t>(cut.degree)});
      return;
    }
  }

  double spare(int used) const { return costs_.problem().devices - used; }

  // The first label of the front with more devices. Devices rise along it, and replicas fall.
  std::vector<Label>::iterator beyond(int devices) const {
    return std::upper_bound(front_->begin(), front_->end(), devices,
                            [](int fewer, const Label& label) { return fewer < label.devices; });
  }

  // Whether a label with as few of both is there, and as fast where both are equal.
  bool beaten(int devices, int replicas, double slowest) const {
    const auto after = beyond(devices);
    if (after == front_->begin() || std::prev(after)->replicas > replicas) return false;
    const Label& other = *std::prev(after);
    return other.devices < devices || other.replicas < replicas || other.slowest <= slowest;
  }

  void insert(const Label& label) {
    if (beaten(label.devices, label.replicas, label.slowest)) return;
    auto first = beyond(label.devices);
    if (first != front_->begin() && std::prev(first)->devices == label.devices) --first;
    auto last = first;
    while (last != front_->end() && last->replicas >= label.replicas) ++last;
    if (first == last) {
      front_->insert(first, label);
      return;
    }
    *first = label;
    front_->erase(first + 1, last);
  }

  Threshold& round_;
  const SuffixCosts& costs_;
  const Suffixes& suffixes_;
  const std::vector<int>& data_;
  std::size_t outer_ = 0;
  std::vector<Label>* front_ = nullptr;
};

// A stage on c devices takes at most c T device time, and at least what leaves enough devices for all other layers; so the
// device time of a stage lies in one of these bands.
void Threshold::find_bands() {
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
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const int size : sizes) {
    const Band band{size * limit_ - spare - give, size * limit_ + give};
    if (!bands_.empty() && band.least <= bands_.back().most)
      bands_.back().most = band.most;
    else
      bands_.push_back(band);
  }
}

void Threshold::prepare(double limit) {
  limit_ = limit;
  stopped_ = false;
  const PlanningProblem& problem = costs_.problem();
  const auto &device = costs_.device_time(), &replica = costs_.replica_time();
  labels_.resize(device.size() * (stages_ + 1));
  for (auto& list : labels_) list.clear();
  most_devices_.resize(device.size());
  most_replicas_.resize(device.size());
  for (std::size_t set = 0; set < device.size(); ++set) {
    most_devices_[set] = problem.devices - at_least(device.back() - device[set], limit);
    most_replicas_[set] = std::min(problem.devices, problem.microbatches) - at_least(replica.back() - replica[set], limit);
  }
  labels_[0].push_back({});
  alive_.assign(1, Alive{});
  find_bands();
}

// Merges the suffixes of a level that have labels into those of the levels before.
void Threshold::add_alive(std::size_t first, std::size_t end) {
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

// Suffixes of one size do not depend on each other.
void Threshold::run_levels() {
  const Suffixes& suffixes = costs_.suffixes();
  const std::size_t count = suffixes.size();
  const std::size_t threads = count < kWorthThreads ? 1 : static_cast<std::size_t>(std::max(1, threads_));
  std::vector<Worker> workers(threads, Worker(*this));
  std::size_t first = 1, end = 1;
  std::atomic<std::size_t> next{1};
  const auto advance = [&] {
    first = end;
    while (end < count && suffixes.layers_in(end) == suffixes.layers_in(first)) ++end;
    next.store(first);
  };
  advance();
  const auto finish_level = [&]() noexcept {
    add_alive(first, end);
    stopped_ = must_stop();
    advance();
    if (stopped_) first = end = count;
  };
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads), finish_level);
  const auto work = [&](std::size_t worker) {
    while (first < count) {
      constexpr std::size_t kTogether = 8;
      for (std::size_t set = next.fetch_add(kTogether); set < end; set = next.fetch_add(kTogether))
        for (std::size_t k = set; k < std::min(set + kTogether, end); ++k) workers[worker].label(k);
      barrier.arrive_and_wait();
    }
  };
  std::vector<std::thread> helpers;
  for (std::size_t worker = 1; worker < threads; ++worker) helpers.emplace_back(work, worker);
  work(0);
  for (std::thread& helper : helpers) helper.join();
  for (const Worker& worker : workers) {
    counts_.evaluated += worker.counts.evaluated;
    counts_.pruned += worker.counts.pruned;
  }
}

const Label& Threshold::best() const {
  const auto& whole = labels_.back();  // after as many stages as are stated
  return *std::min_element(whole.begin(), whole.end(), [](const Label& a, const Label& b) { return a.slowest < b.slowest; });
}

std::vector<StageChoice> Threshold::stages() const {
  std::vector<StageChoice> stages;
  std::size_t suffix = costs_.suffixes().size() - 1, count = stages_;
  for (const Label* label = &best(); suffix != 0;) {
    const Cut cut{suffix, label->from, label->degree};
    stages.push_back(costs_.stage(cut, label->data, (label->replicas + label->data - 1) / label->data));
    suffix = label->from;
    if (count > 0) --count;
    label = &labels(suffix, count)[label->from_label];
  }
  return stages;
}

std::optional<double> Threshold::reach(double limit, const std::atomic<bool>* stop) {
  stop_ = stop;
  prepare(limit);
  run_levels();
  if (stopped_ || labels_.back().empty()) return std::nullopt;
  return best().slowest;
}

}  // namespace panpipe::planner::piper
