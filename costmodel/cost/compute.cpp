#include "costmodel/cost/compute.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace panpipe {
namespace {

constexpr std::int64_t kTensorCoreAlignment = 8;  // elements; cuBLAS falls back to the vector units for other head sizes

// Backward over forward of fused attention: 5 products against 2, and lower efficiency (arXiv 2307.08691, section 2.3.1
// counts 2.5 x the work; the published forward and backward rates of figures 5 and 6 give 3.1 x the time).
constexpr double kFlashBackward = 3.125;

Bytes whole(double bytes) { return Bytes(static_cast<std::int64_t>(std::llround(bytes))); }

}  // namespace

DeviceRates device_rates(const DeviceType& type, const Calibration& calibration, const Scenario& scenario) {
  const Framework& framework = scenario.framework;
  DeviceRates r;
  r.element = static_cast<double>(size_of(compute_dtype(scenario.precision)).base());
  const double infinite = std::numeric_limits<double>::infinity();
  const ComputeRate peak = type.has_rates() ? type.peak_for(scenario.precision) : ComputeRate(infinite);
  r.gemm = peak * calibration.gemm_efficiency;
  r.unaligned = peak * calibration.unaligned_gemm_efficiency;
  r.attention = peak * calibration.attention_efficiency;
  r.memory = type.has_rates() ? type.memory_bandwidth * calibration.memory_efficiency : Bandwidth(infinite);
  r.kernel_gap = type.has_rates() ? calibration.kernel_gap : Duration(0);
  r.elementwise_factor = framework.elementwise_factor * calibration.elementwise_scale;
  r.replicated_factor =
      framework.replicated_factor > 0 ? framework.replicated_factor * calibration.elementwise_scale : r.elementwise_factor;
  // The calibrated figure is for 2-byte elements; every part of that traffic is made of elements.
  r.score_bytes = calibration.score_bytes * framework.score_factor * r.element / 2;
  r.flash = framework.flash_attention;
  r.dropout = framework.dropout;
  r.loss_bytes = framework.loss_bytes_per_logit;
  r.loss_live_bytes = framework.loss_live_bytes_per_logit;
  r.replicated_saved_factor = framework.replicated_saved_factor;
  r.sharded_saved_factor = framework.sharded_saved_factor;
  return r;
}

Breakdown gemm_cost(const GemmShape& g, const DeviceRates& rates) {
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  const double batch = static_cast<double>(g.batch);
  Breakdown cost;
  cost.work = Flops(2 * batch * m * n * k);
  const double bytes = rates.element * batch * (m * k + k * n + m * n);
  cost.traffic = whole(bytes);
  cost.compute = std::max(cost.work / rates.gemm, Duration(bytes / rates.memory.base()));
  cost.total = cost.compute;
  return cost;
}

double attention_scores(const AttentionShape& a) {
  return static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.query_length) *
         static_cast<double>(a.key_length);
}

AttentionCost attention_cost(const AttentionShape& a, const DeviceRates& rates) {
  const double scores = attention_scores(a);
  AttentionCost cost;
  if (rates.flash) {
    // Two products of 2 x head_size per score; a causal mask skips half of the blocks.
    cost.forward.work = Flops(4 * scores * static_cast<double>(a.head_size) * (a.causal ? 0.5 : 1.0));
    cost.forward.compute = cost.forward.work / rates.attention;
    cost.backward.work = cost.forward.work * 2.5;
    cost.backward.compute = cost.forward.compute * kFlashBackward;
  } else {
    DeviceRates products = rates;
    if (a.head_size % kTensorCoreAlignment != 0) products.gemm = rates.unaligned;
    const std::int64_t batch = a.batch * a.heads;
    const Breakdown both = gemm_cost({batch, a.query_length, a.key_length, a.head_size}, products) +
                           gemm_cost({batch, a.query_length, a.head_size, a.key_length}, products);
    const Breakdown softmax = traffic_cost(scores * rates.score_bytes, rates);
    cost.forward = both + softmax;
    cost.backward = both + both + softmax;
  }
  cost.forward.total = cost.forward.compute + cost.forward.memory;
  cost.backward.total = cost.backward.compute + cost.backward.memory;
  return cost;
}

Breakdown traffic_cost(double bytes, const DeviceRates& rates) {
  Breakdown cost;
  cost.traffic = whole(bytes);
  cost.memory = Duration(bytes / rates.memory.base());
  cost.total = cost.memory;
  return cost;
}

}  // namespace panpipe
