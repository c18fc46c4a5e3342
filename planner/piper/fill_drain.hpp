// Which plan with loads of at most T fills and drains fastest? A step takes N T + sum of x - max of x, x = data * load of a
// stage; sum less max is the sum without one stage, whichever makes it least. Labels: devices, replicas, cost, and whether a
// stage was left out already.
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

  // Least cost of a plan with loads <= limit and cost < `enough`; nullopt: there is none (or `stop` was set: see stopped()).
  std::optional<double> reach(double limit, double enough, const std::atomic<bool>* stop);
  std::vector<StageChoice> stages() const;  // of the plan that was reached
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
    std::uint16_t stages = 0;  // behind and with this one; 0 where their number is not stated
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
  std::size_t stages_;  // so many, exactly; 0 = any number
  double limit_ = 0, enough_ = 0;
  std::vector<std::vector<CostLabel>> labels_;
  Counts counts_;
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
};

}  // namespace panpipe::planner::piper
