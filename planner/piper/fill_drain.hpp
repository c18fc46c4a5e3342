// Finds the plan with loads of at most T that fills and drains fastest. A step takes N T + sum of x - max of x, where x = data *
// load of a stage. Sum less max is the sum without one stage, minimised over that stage. Labels hold devices, replicas, cost, and
// whether a stage was already left out.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "planner/piper/threshold.hpp"

namespace panpipe::planner::piper {

class FillDrain {
 public:
  FillDrain(const SuffixCosts& costs, const FrontBounds& front)
      : costs_(costs), front_(front), stages_(static_cast<std::size_t>(costs.problem().stages)) {}

  // The least cost of a plan with loads <= limit and cost < `enough`; nullopt if there is none, or if `stop` was set (see
  // stopped()).
  std::optional<double> reach(double limit, double enough, const std::atomic<bool>* stop);
  std::vector<StageChoice> stages() const;  // of the plan that was found
  bool stopped() const { return stopped_; }
  const Counts& counts() const { return counts_; }

 private:
  struct CostLabel {
    double cost = 0;
    int devices = 0, replicas = 0;
    std::uint32_t from = 0, from_label = 0;
    std::int32_t data = 0;
    std::uint16_t degree = 0;
    bool left_out = false;     // one stage's x is not in `cost`
    std::uint16_t stages = 0;  // from this one to the last; 0 if their number is not stated
  };

  void label(std::size_t outer);
  bool must_stop() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  void stage_between(std::size_t outer, std::size_t inner);
  void extend(const Cut& cut, const StageBase& base, const CostLabel& behind, std::uint32_t index);
  void insert(std::size_t outer, const CostLabel& label);
  bool hopeless(std::size_t outer, const CostLabel& label) const;
  const CostLabel* best() const;  // nullptr: none

  const SuffixCosts& costs_;
  const FrontBounds& front_;
  std::size_t stages_;  // exact number; 0 = any
  double limit_ = 0, enough_ = 0;
  std::vector<std::vector<CostLabel>> labels_;
  Counts counts_;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
};

}  // namespace panpipe::planner::piper
