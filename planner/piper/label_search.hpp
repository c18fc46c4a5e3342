// The walk that both objectives share. Every suffix keeps labels: what its layers need as stages that take at most T each. A
// label is extended by the stage before it. Fewer devices and replicas are better, because the replicas after a stage determine
// its microbatches in flight. If the number of stages is stated, there is a list of labels for every number of stages so far.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/piper/suffix_costs.hpp"

namespace panpipe::planner::piper {

struct Label {
  int devices = 0, replicas = 0;
  double value = 0;                        // of the objective
  std::uint32_t from = 0, from_label = 0;  // suffix after the stage, and its label
  std::int32_t data = 0;
  std::uint16_t way = 0;
  bool left_out = false;  // `value` lacks one of these stages: the longest, which a step's objective counts apart
};
using Labels = std::vector<Label>;  // by devices

struct Counts {
  std::int64_t evaluated = 0;  // stages whose load was computed
  std::int64_t pruned = 0;     // stages that a bound excluded
};

class LabelSearch {
 public:
  // `stages`: exact number; 0 = any.
  LabelSearch(const SuffixCosts& costs, int threads, int stages)
      : costs_(costs), threads_(threads), stages_(static_cast<std::size_t>(stages)) {}

  std::vector<StageChoice> stages() const;  // of the plan that was found, first to last
  bool stopped() const { return stopped_; }
  const Counts& counts() const { return counts_; }

 protected:
  struct Stage {
    Cut cut;
    int tensor = 1;
    StageBase base;
    std::size_t first = 0;  // number of the least data degree whose load can be within the limit, memory aside
  };

  // The least value of a plan with loads <= limit; nullopt if there is none, or if `stop` was set (see stopped()).
  // extend(stage, behind, index, labels, counts) adds the labels of a stage to those of its outer suffix; `behind` is label
  // number `index` of its inner suffix. It is called for every such pair, so it stands where the compiler can see it.
  template <class Extend>
  std::optional<double> walk(double limit, const std::atomic<bool>* stop, const Extend& extend) {
    prepare(limit, stop);
    for_each_suffix([&](std::size_t outer, Counts& counts) { label(outer, counts, extend); });
    if (stopped_ || labels_.back().empty()) return std::nullopt;
    return best()->value;
  }

  // The label behind with the stage on so many replicas, at the value behind.
  static Label extended(const Stage& stage, int data, const Label& behind, std::size_t index) {
    return {behind.devices + data * stage.tensor,
            behind.replicas + data,
            behind.value,
            static_cast<std::uint32_t>(stage.cut.inner),
            static_cast<std::uint32_t>(index),
            data,
            static_cast<std::uint16_t>(stage.cut.way),
            behind.left_out};
  }
  // Whether a label of this suffix leaves enough for the layers before it: by their time, and by their memory too.
  bool within_limits(std::size_t suffix, const Label& label) const {
    return label.devices <= most_devices_[suffix] && label.replicas <= most_replicas_[suffix];
  }
  bool leaves_devices(std::size_t suffix, const Label& label) const {
    return costs_.front().devices(suffix, label.replicas, limit_) * (1 - kRounding) <= costs_.problem().devices - label.devices;
  }
  // As SuffixCosts::load, of the stage that the label begins with.
  double load(const Stage& stage, const Label& label) const {
    return costs_.load(stage.cut, stage.base, label.data, in_flight(label), limit_);
  }

  const SuffixCosts& costs_;
  double limit_ = 0;

 private:
  struct Band {
    double least = 0, most = 0;  // of the device time of a stage
  };
  struct Alive {  // a suffix with labels
    double device_time = 0;
    std::uint32_t suffix = 0;
    std::int32_t devices = 0;  // the fewest among its labels
  };
  static int in_flight(const Label& label) { return (label.replicas + label.data - 1) / label.data; }
  Labels& labels(std::size_t suffix, std::size_t stages) { return labels_[suffix * (stages_ + 1) + stages]; }
  const Labels& labels(std::size_t suffix, std::size_t stages) const { return labels_[suffix * (stages_ + 1) + stages]; }
  Labels::const_iterator best() const;  // of those of all layers

  void prepare(double limit, const std::atomic<bool>* stop);
  void find_bands();
  void add_alive(std::size_t first, std::size_t end);
  void for_each_suffix(const std::function<void(std::size_t outer, Counts& counts)>& label);
  std::size_t fewest_replicas(const StageBase& base) const;
  bool must_stop() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

  template <class Extend>
  void label(std::size_t outer, Counts& counts, const Extend& extend) {
    const double whole = costs_.device_time()[outer];
    const int most = most_devices_[outer] - costs_.data_degrees().front();
    for (const Band& band : bands_) {
      auto inner = std::lower_bound(alive_.begin(), alive_.end(), whole - band.most,
                                    [](const Alive& a, double time) { return a.device_time < time; });
      for (; inner != alive_.end() && inner->device_time <= whole - band.least && !must_stop(); ++inner)
        if (inner->devices <= most && costs_.suffixes().within(inner->suffix, outer))
          stage_between(outer, *inner, counts, extend);
    }
  }

  template <class Extend>
  void stage_between(std::size_t outer, const Alive& inner, Counts& counts, const Extend& extend) {
    const std::vector<int>& data = costs_.data_degrees();
    for (std::size_t way = 0; way < costs_.ways(); ++way) {
      Stage stage{{outer, inner.suffix, way}, costs_.tensor(way), {}, 0};
      const int most = (most_devices_[outer] - inner.devices) / stage.tensor;
      if (most >= data.front()) stage.base = costs_.base(stage.cut, most * limit_);
      if (!stage.base.offered) {
        ++counts.pruned;
        continue;
      }
      ++counts.evaluated;
      stage.first = stage.base.time <= limit_ ? 0 : fewest_replicas(stage.base);
      if (stage.first == data.size()) continue;
      const int most_behind = most_devices_[outer] - data[stage.first] * stage.tensor;
      for (std::size_t before = 0; before < std::max<std::size_t>(1, stages_); ++before) {
        const Labels& list = labels(inner.suffix, before);
        Labels& into = labels(outer, stages_ == 0 ? 0 : before + 1);
        for (std::size_t i = 0; i < list.size() && list[i].devices <= most_behind; ++i) extend(stage, list[i], i, into, counts);
      }
    }
  }

  const int threads_;
  const std::size_t stages_;
  std::vector<Band> bands_;
  std::vector<Labels> labels_;                     // stages_ + 1 lists per suffix
  std::vector<int> most_devices_, most_replicas_;  // limits of a label that leave enough for the layers before
  std::vector<Alive> alive_;                       // by device time
  Counts counts_;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
};

}  // namespace panpipe::planner::piper
