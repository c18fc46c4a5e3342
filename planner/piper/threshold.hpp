// Decides whether a plan exists whose slowest stage takes at most T, and with which devices. A label's value is its slowest
// stage.
#pragma once

#include "planner/piper/label_search.hpp"

namespace panpipe::planner::piper {

class Threshold final : public LabelSearch {
 public:
  using LabelSearch::LabelSearch;
  std::optional<double> reach(double limit, const std::atomic<bool>* stop);

 private:
  inline void extend(const Stage& stage, const Label& behind, std::size_t index, Labels& labels, Counts& counts) const;
};

}  // namespace panpipe::planner::piper
