// Device time of matrix products, attention cores and memory traffic (docs/models/compute.md).
#pragma once

#include "base/quantity.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/profile/recipe.hpp"
#include "costmodel/workload/operator_cost.hpp"

namespace panpipe {

// Bytes per element in 4 bits (NF4): one scale byte per 64 elements, one fp32 scale per 256 scales (QLoRA, arXiv 2305.14314,
// section 3).
constexpr double kNf4Bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

// Of products in 8 or 4 bits on a device.
struct NarrowRates : NarrowScope {
  ComputeRate gemm{0};
  double operand = 0, weight = 0;  // bytes of an element, scales included, and of one of a weight
  bool by_rows = true;             // products read rows alone, so that operands along columns are turned first
  bool single_weight = false;      // of weights the second copy does not stay
  // A tensor's second copy exists.
  bool two_copies() const { return recipe->second == SecondCopy::Cast || by_rows; }
};

// The rates that a device reaches in one scenario: data-sheet rates times calibrated efficiencies, and the framework's choices.
struct DeviceRates {
  ComputeRate gemm{0};       // large matrix products
  NarrowRates narrow;        // without a recipe products of blocks run in the common format
  ComputeRate unaligned{0};  // batched products of attention whose head size is not a multiple of 8
  ComputeRate attention{0};  // fused attention, forward, causal work, at 4096 tokens
  int multiprocessors = 0;   // 0: unknown, products are not divided into tiles
  double wave_quantisation = 0;
  double gemm_fill = 0;       // elements of the inner dimension
  double attention_ramp = 0;  // tokens
  Bandwidth memory{0};
  Duration kernel_gap{0};
  double scan = 0;                               // seconds for an operation of a selective scan, its exponentials included
  SampleLengths samples;                         // packed into a sequence
  double operand = 2;                            // bytes of an element that a product reads
  double element = 2;                            // bytes of a tensor element
  double elementwise_factor = 1;                 // traffic relative to fully fused kernels: framework x calibration
  double replicated_factor = 1;                  // the same for normalizations and residual sums
  double score_forward = 0, score_backward = 0;  // bytes of traffic per score of unfused attention
  double score_mask = 0;                         // part of these that a causal mask adds in each direction
  bool flash = false;
  double flash_backward = 0;  // backward over forward time of fused attention
  double head_exponent = 0;   // fused attention runs at (head size / 128)^this of its rate, below 128
  Elementwise elementwise = Elementwise::Fused;
  NormalizationKernel normalization = NormalizationKernel::Kernel;
  ActivationKernel activation = ActivationKernel::Kernel;
  ExpertProducts expert_products = ExpertProducts::Grouped;
  bool loss_in_chunks = false;   // the backward recomputes logits
  double residual = 2;           // bytes of an element of residuals and normalizations
  double weight_cast = 0;        // bytes per weight of a product and pass: autocast's copies of the weight and of its gradient
  double accumulation = 0;       // bytes moved per weight when its gradient is added to a sum of another format
  double head_accumulation = 0;  // the same for the head's weight
  double score_kept = 0;         // additional bytes per score that autocast keeps, in fp32
  double unpacking = 0;          // bytes moved per element when a 4-bit weight is unpacked for a product; 0: no weight is packed
  bool dropout = false;          // dropout masks are written and kept even if the graph has none
  double loss_forward_bytes = 0, loss_backward_bytes = 0;  // traffic per logit
  double loss_live_bytes = 0;                              // per logit, live while the loss runs
  bool gathered_kept = false;                              // products keep the input that sequence parallelism gathered for them
  double replicated_saved_factor = 1, sharded_saved_factor = 1;  // kept bytes relative to those that operators read again
};

// Rates of `type` in the scenario. Without rates (in-place clusters) all times are 0 and only bytes are counted.
DeviceRates device_rates(const DeviceType& type, const Calibration& calibration, const Scenario& scenario);

// Roofline of one matrix product: the longer of the compute time at the reached rate and the time to move its operands once.
Breakdown gemm_cost(const GemmShape& shape, const DeviceRates& rates);

struct AttentionCost {
  Breakdown forward, backward;
};
// The attention core of the framework: fused (flash), or two batched products and the traffic of the scores.
AttentionCost attention_cost(const AttentionShape& shape, const DeviceRates& rates);

// Scores of one attention core: batch x heads x queries x keys.
double attention_scores(const AttentionShape& shape);

// The cost of moving these bytes through memory once.
Breakdown traffic_cost(double bytes, const DeviceRates& rates);

}  // namespace panpipe
