// The traffic between stages by cut: stage_links() for callers that query many cuts of one workload.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/plan/stage_links.hpp"

namespace panpipe {

// First unit of each stage after the first, ascending.
using Cuts = std::vector<int>;

class CutLinks {
 public:
  explicit CutLinks(const WorkloadCost& workload);

  // Returns stage_links() for the stages' positions along the chain, without scanning every edge, because a search queries each
  // cut.
  void links(const Cuts& cuts, std::vector<StageLink>& links) const;
  // Bytes of all tensors made before unit `cut` and read at or after it, each once.
  std::int64_t bytes_across(int cut) const;
  // True if every tensor goes from a unit to the next one.
  bool is_chain() const { return chain_; }
  // True if every unit reads an output of the unit before it: a stage then depends on the one before it, wherever the cuts are.
  bool is_connected() const { return connected_; }
  // The tensors that a unit passes to the next one, regardless of cuts; they cross a cut before unit `cut`.
  const StageLink& next_unit(int cut) const { return next_unit_[cut]; }

 private:
  struct Consumer {
    int unit = 0;
    std::int64_t bytes = 0;
    bool gradient = false;
  };
  struct Tensor {
    int producer = 0;
    std::vector<Consumer> consumers;  // ascending units
  };
  std::vector<Tensor> tensors_;          // by producer
  std::vector<std::vector<int>> alive_;  // per unit u: tensors made before u and read at or after it
  std::vector<StageLink> next_unit_;
  bool chain_ = true, connected_ = true;
};

}  // namespace panpipe
