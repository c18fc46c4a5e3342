// What a distinct movable unit costs, operator by operator; units of equal structure share one. Internal to this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/unit_view.hpp"
#include "costmodel/workload/among.hpp"

namespace panpipe {

struct OperatorTime {
  bool counted = false;  // launches a kernel (not a view)
  bool attention = false;
  bool causal = false;           // attention under a causal mask
  bool residual = false;         // the sum with the unit's own input
  bool enters_parallel = false;  // a product that reads what a backward collective's operator passes on (column-parallel)
  Breakdown forward, input_gradient, weight_gradient;  // without kernel gaps
  CollectiveKind forward_collective = CollectiveKind::None;
  CollectiveKind backward_collective = CollectiveKind::None;
  Among among = Among::Tensor;                   // whose
  Bytes collective_bytes{0}, backward_bytes{0};  // of the forward's collective and of the backward's
  bool over_context() const { return attention && among == Among::Context && forward_collective != CollectiveKind::None; }
  int weight_products = 0;
  int forward_launches = 0, backward_launches = 0;  // kernels, counted; both gradients
  int weight_launches = 0;                          // of both, those of weight gradients
};

struct SavedExternal {
  int external = 0;  // index into the unit's external tensors by first use
  Bytes bytes{0};
};

struct UnitTemplate {
  std::vector<OperatorTime> operators;
  int counted = 0;
  int collectives = 0;  // tensor-parallel ones
  bool embedding = false, loss = false, attention = false;
  bool head = false;                          // makes the logits: the loss's unit itself, or one before it
  Bytes saved_inside{0};                      // made in the unit and kept
  std::vector<SavedExternal> saved_external;  // made elsewhere and kept; the first unit that keeps one pays for it
  Bytes attention_core{0};                    // of saved_inside, what selective recompute drops
  Bytes kept_for_weight{0};
  Bytes temporary{0};
  Bytes graph_inputs{0};
};

UnitTemplate make_template(const UnitView& unit, const std::vector<int>& externals, const DeviceRates& rates);

// Saved activations and temporaries of the unit (memory.cpp).
void count_memory(const UnitView& unit, const std::vector<int>& externals, const DeviceRates& rates, UnitTemplate& result);

// What backwards read of the forward.
struct SavedTensors {
  std::vector<int> tensors;    // by the tensor that owns the memory
  std::vector<int> in_8_bits;  // the same, of copies that products in 8 bits keep
  double extra = 0;            // bytes of masks and statistics
  double attention = 0;        // of extra, what the inside of attention holds
};

// Adds what the backward of operator i reads.
void keep_operator(const UnitView& unit, int i, const DeviceRates& rates, bool add_masks, SavedTensors& saved);

// Does the framework drop out where the unit's graph does not?
bool adds_masks(const UnitView& unit, const DeviceRates& rates);

// Elements of the logits when operator i is a loss, else 0.
double logits(const UnitView& unit, int i);

}  // namespace panpipe
