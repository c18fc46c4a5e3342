// Decides whether a plan exists whose slowest stage takes at most T, and with which devices. Every suffix keeps labels (devices
// used, replicas used). Fewer of both is better, because the replicas after a stage determine its microbatches in flight. If the
// number of stages is stated, there is a list of labels for every number of stages so far.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/piper/front_bounds.hpp"
#include "planner/piper/suffix_costs.hpp"

namespace panpipe::planner::piper {

struct Label {
  int devices = 0, replicas = 0;
  double slowest = 0;
  std::uint32_t from = 0, from_label = 0;  // suffix after the stage, and its label
  std::int32_t data = 0;
  std::uint16_t degree = 0;
};

struct Counts {
  std::int64_t evaluated = 0;  // stages whose load was computed
  std::int64_t pruned = 0;     // stages that a bound excluded
};

class Threshold {
 public:
  // `stages`: exact number; 0 = any.
  Threshold(const SuffixCosts& costs, const FrontBounds& front, int threads, int stages)
      : costs_(costs), front_(front), threads_(threads), stages_(static_cast<std::size_t>(stages)) {}

  // The largest load of a plan, if it is at most `limit`; nullopt if there is none, or if `stop` was set (see stopped()).
  std::optional<double> reach(double limit, const std::atomic<bool>* stop);
  std::vector<StageChoice> stages() const;  // of the plan that was found, first to last
  bool stopped() const { return stopped_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Band {
    double least = 0, most = 0;  // of the device time of a stage
  };
  struct Alive {  // a suffix with labels
    double device_time = 0;
    std::uint32_t suffix = 0;
    std::int32_t devices = 0;  // the fewest among its labels
  };
  class Worker;
  // After `stages` stages if their number is stated.
  const std::vector<Label>& labels(std::size_t suffix, std::size_t stages) const {
    return labels_[suffix * (stages_ + 1) + stages];
  }
  const Label& best() const;

  void prepare(double limit);
  void find_bands();
  void run_levels();
  bool must_stop() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  void add_alive(std::size_t first, std::size_t end);

  const SuffixCosts& costs_;
  const FrontBounds& front_;
  int threads_;
  std::size_t stages_;
  double limit_ = 0;
  std::vector<Band> bands_;
  std::vector<std::vector<Label>> labels_;         // stages_ + 1 lists per suffix
  std::vector<int> most_devices_, most_replicas_;  // limits of a label that leave enough for the layers before
  std::vector<Alive> alive_;                       // by device time
  Counts counts_;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
};

}  // namespace panpipe::planner::piper
