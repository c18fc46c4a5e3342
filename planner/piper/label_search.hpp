// The walk that both objectives share. Every suffix keeps labels: what its layers need as stages that take at most T each. A
// label is extended by the stage before it. Fewer devices and replicas are better, because the replicas after a stage determine
// its microbatches in flight. If the number of stages is stated, there is a list of labels for every number of stages so far.
#pragma once

#include <atomic>
#include <cstdint>
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
  virtual ~LabelSearch() = default;

  // The least value of a plan with loads <= limit; nullopt if there is none, or if `stop` was set (see stopped()).
  std::optional<double> reach(double limit, const std::atomic<bool>* stop);
  std::vector<StageChoice> stages() const;  // of the plan that was found, first to last
  bool stopped() const { return stopped_; }
  const Counts& counts() const { return counts_; }

 protected:
  // A stage, and the label of the suffix after it.
  struct Extension {
    const Cut& cut;
    const StageBase& base;
    std::size_t first = 0;  // number of the least data degree whose load can be within the limit, memory aside
    const Label& behind;
    std::uint32_t index = 0;  // of `behind` in its list
  };
  // Adds the labels of this stage to those of its outer suffix.
  virtual void extend(const Extension& stage, Labels& labels, Counts& counts) const = 0;

  // The label behind with the stage on so many replicas, at the value behind.
  Label extended(const Extension& stage, int data) const {
    const Label& behind = stage.behind;
    return {behind.devices + data * costs_.tensor(stage.cut.way),
            behind.replicas + data,
            behind.value,
            static_cast<std::uint32_t>(stage.cut.inner),
            stage.index,
            data,
            static_cast<std::uint16_t>(stage.cut.way),
            behind.left_out};
  }
  // Whether a label of this suffix leaves enough for the layers before it: by their time, and by their memory too.
  bool within_limits(std::size_t suffix, const Label& label) const {
    return label.devices <= most_devices_[suffix] && label.replicas <= most_replicas_[suffix];
  }
  bool leaves_devices(std::size_t suffix, const Label& label) const;
  // As SuffixCosts::load, of the stage that the label begins with.
  double load(const Extension& stage, const Label& label) const;

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
  Labels& labels(std::size_t suffix, std::size_t stages) { return labels_[suffix * (stages_ + 1) + stages]; }
  const Labels& labels(std::size_t suffix, std::size_t stages) const { return labels_[suffix * (stages_ + 1) + stages]; }
  Labels::const_iterator best() const;  // of those of all layers

  void prepare();
  void find_bands();
  void add_alive(std::size_t first, std::size_t end);
  void label(std::size_t outer, Counts& counts);
  void stage_between(std::size_t outer, const Alive& inner, Counts& counts);
  std::size_t fewest_replicas(const StageBase& base) const;
  bool must_stop() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

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
