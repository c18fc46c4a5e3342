// Decides whether a plan exists whose slowest stage takes at most T, and with which devices. A label's value is its slowest
// stage.
#pragma once

#include "planner/piper/label_search.hpp"

namespace panpipe::planner::piper {

class Threshold final : public LabelSearch {
 public:
  using LabelSearch::LabelSearch;

 private:
  void extend(const Extension& stage, Labels& labels, Counts& counts) const override;
};

}  // namespace panpipe::planner::piper
