// The cost of a distinct movable unit, operator by operator. Units of equal structure share it. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"
#include "costmodel/degrees/among.hpp"

namespace panpipe {

struct KernelCounts {
  int forward_launches = 0, backward_launches = 0;  // backward: of both gradients together
  int weight_launches = 0;                          // the part of these for weight gradients: products, their casts and sums
  // PyTorch's operators around products of experts that a loop in C++ launches, of all experts of the rank.
  int around_forward = 0, around_backward = 0;
};

struct OperatorTime : KernelCounts {
  bool counted = false;  // launches a kernel (not a view)
  bool attention = false;
  bool causal = false;           // attention under a causal mask
  bool residual = false;         // the sum with the unit's own input
  bool enters_parallel = false;  // a product whose input gradient goes through a backward collective (column-parallel)
  Breakdown forward, input_gradient, weight_gradient;  // without kernel gaps
  CollectiveKind forward_collective = CollectiveKind::None;
  CollectiveKind backward_collective = CollectiveKind::None;
  Among among = Among::Tensor;                   // the group of the collectives
  Bytes collective_bytes{0}, backward_bytes{0};  // of the forward's and of the backward's collective
  int products_behind = 0;  // that read what a tensor-parallel collective brings in, and whose gradients its backward sums
  bool over_context() const { return attention && among == Among::Context && forward_collective != CollectiveKind::None; }
  int weight_products = 0;
  // Of a layer with experts.
  bool routes = false;           // chooses experts, or brings rows to them and back
  bool by_expert = false;        // behind the dispatch of rows, up to their sum
  bool for_each_expert = false;  // launched once for each of the rank's `experts`
  bool each = false;             // and at once, so that experts' products run next to one another
  int experts = 1;
};

struct SavedExternal {
  int external = 0;  // index into the unit's external tensors, ordered by first use
  Bytes bytes{0};
};

struct UnitTemplate {
  std::vector<OperatorTime> operators;
  int counted = 0;
  int sharing = 0;      // of these, those that share a number of launches that the framework states for a layer
  int collectives = 0;  // tensor-parallel ones
  bool embedding = false, loss = false, attention = false;
  int dispatch = -1;                          // the operator that puts rows in the order of their experts
  bool head = false;                          // makes the logits: the loss's own unit, or an earlier one
  Bytes saved_inside{0};                      // made in the unit and kept
  std::vector<SavedExternal> saved_external;  // made elsewhere and kept; the first unit that keeps one pays for it
  Bytes attention_core{0};                    // the part of saved_inside that selective recompute drops
  Bytes kept_for_weight{0};
  Bytes temporary{0};
  Bytes weight_copies{0}, logits{0};
  Bytes graph_inputs{0};
};

UnitTemplate make_template(const UnitView& unit, const std::vector<int>& externals, const DeviceRates& rates);

// Saved activations and temporaries of the unit (memory.cpp).
void count_memory(const UnitView& unit, const std::vector<int>& externals, const DeviceRates& rates, UnitTemplate& result);

// Forward data that backwards read.
struct SavedTensors {
  std::vector<int> tensors;  // identified by the tensor that owns the memory
  std::vector<int> narrow;   // the same for copies that products in 8 or 4 bits keep
  std::vector<int> copies;   // made of fp32 results of normalizations, a copy each time that one is named
  double extra = 0;          // bytes of masks and statistics
  double attention = 0;      // the part of extra inside attention
};

// Adds the data that the backward of operator i reads.
void keep_operator(const UnitView& unit, int i, const DeviceRates& rates, bool add_masks, SavedTensors& saved);

// Bytes of the trained weights that operator i multiplies with, in the format of the product.
double weight_copies(const UnitView& unit, int i);

// Elements of the logits when operator i is a loss, else 0.
double logits(const UnitView& unit, int i);

}  // namespace panpipe
