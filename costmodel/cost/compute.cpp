#include "costmodel/cost/compute.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "costmodel/cost/gradient_traffic.hpp"
#include "costmodel/cost/whole_bytes.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kTensorCoreAlignment = 8;  // elements; cuBLAS falls back to the vector units for other head sizes

// Backward over forward of fused attention: 5 products against 2, and lower efficiency (arXiv 2307.08691, section 2.3.1
// counts 2.5 x the work; the published forward and backward rates of figures 5 and 6 give 3.1 x the time).
constexpr double kFlashBackward = 3.125;

constexpr double kRampAt = 4096;  // tokens for which the rates of fused attention are meant
// FlashAttention-2's published bars, 99 to 189 TFLOP/s from 512 to 16384 tokens on A100, 191 to 335 on H100.
constexpr double kNamedRamp = 480;
constexpr double kFlashWork = 2.5;  // backward over forward work
constexpr double kNamedHead = 128;  // head size that published rates are meant for
constexpr double kFp32 = 4;         // bytes
// Share of the loss's traffic that its forward has: maximum, exponential and sum, look-up; then comes the gradient.
constexpr double kLossForward = 0.68;
constexpr double kMetricBytes =
    14;  // a logit: cast to fp32 2 + 4, log-softmax 4 + 4, whose rows stay in the cache between its passes

// Heads of 64 over heads of 128: FlashAttention-2 156 to 173 (A100), 321 to 368 (H100); cuDNN 408 to 609, FlashAttention-3 476
// to 638; Triton's alike (arXiv 2307.08691, figure 4; arXiv 2407.08608, figure 5).
double head_exponent(AttentionKernel kernel) {
  return kernel == AttentionKernel::Flash2   ? 0.17
         : kernel == AttentionKernel::Flash3 ? 0.42
         : kernel == AttentionKernel::Cudnn  ? 0.58
                                             : 0;
}

// Traffic of one score of an attention whose operators are kernels of their own, or one kernel that a compiler makes of them.
void count_scores(const Framework& framework, bool autocast, DeviceRates& r) {
  const double e = r.element, mask = framework.dropout ? 1 : 0;
  if (framework.elementwise == Elementwise::Compiled) {
    r.score_forward = (autocast ? e + kFp32 + e : 2 * e) + mask;
    r.score_backward = (autocast ? e + kFp32 + e : 3 * e) + mask;
    return;
  }
  const double dropout = framework.dropout ? 2 * e + 1 : 0;
  r.score_mask = 2 * e;
  const double cast = autocast ? kFp32 + e : 0;  // softmax in fp32, and back
  r.score_forward = 2 * e + (autocast ? e + kFp32 : 2 * e) + cast + dropout;
  r.score_backward = 2 * e + (autocast ? 2 * kFp32 + e : 3 * e) + cast + dropout;
}

// Even if the products accumulate their weight gradients, the head's is added in fp32 over the whole vocabulary: the sum is read
// and written, and so is the 2-byte product.
constexpr double kHeadAccumulation = 12;

// Bytes a weight that a microbatch's gradient moves behind the product that made it.
double accumulation_traffic(const Scenario& scenario, double element) {
  const Framework& framework = scenario.framework;
  const bool mixed = is_mixed(scenario.precision);
  // The gradient is read, the sum is read and written.
  const auto added_to = [&](double sum) { return element + 2 * sum; };
  switch (framework.gradient_accumulation) {
    case GradientAccumulation::Fp32:
      return mixed ? added_to(kFp32) : 0;
    case GradientAccumulation::Buffer:
      // An optimizer with a copy in fp32 under bf16 sums there.
      if (framework.bf16_extra_gradient_bytes > 0 && mixed)
        return added_to(outside_products(scenario.precision) == Precision::Bf16 ? kFp32 : element);
      return added_to(travelling_gradient_bytes(scenario));
    case GradientAccumulation::Flat: {
      const double travels = travelling_gradient_bytes(scenario);
      return 2 * element + (travels > element ? element + travels : 0) + 2 * travels;
    }
    case GradientAccumulation::Fused:
    case GradientAccumulation::Autograd:  // by the number of passes: CostModel::accumulation
      break;
  }
  return 0;
}

void choose_attention(const Framework& framework, const Calibration& calibration, bool autocast, DeviceRates& r) {
  r.flash = is_fused(framework.attention);
  r.flash_backward = kFlashBackward;
  const auto published = calibration.attention_rates.find(framework.attention);
  if (published != calibration.attention_rates.end() && r.element < kFp32) {
    r.attention = published->second.forward;
    r.flash_backward = kFlashWork * (published->second.forward / published->second.backward);
    r.attention_ramp = kNamedRamp;
    r.head_exponent = head_exponent(framework.attention);
  }
  if (framework.attention == AttentionKernel::Unfused) return count_scores(framework, autocast, r);
  // The calibrated figure is for 2-byte elements; every part of that traffic is made of elements.
  r.score_forward = r.score_backward = calibration.score_bytes * framework.score_factor * r.element / 2;
}

// Products of Ada and Hopper in 8 bits, and those of GeForce's Blackwell, take rows alone; of the data centre's Blackwell any
// layout (Transformer Engine, pytorch/utils.py, is_non_tn_fp8_gemm_supported).
bool multiplies_by_rows(const DeviceType& type) { return type.compute_capability < 10 || type.compute_capability >= 12; }

NarrowRates rates_of_narrow(const DeviceType& type, const Calibration& calibration, const Scenario& scenario) {
  NarrowRates rates{narrow_scope(scenario.precision, scenario.framework)};
  if (rates.recipe == nullptr) return rates;
  const Recipe& recipe = *rates.recipe;
  rates.by_rows = multiplies_by_rows(type);
  rates.single_weight = scenario.framework.single_weight_cast;
  rates.operand = recipe.element + recipe.scales;
  rates.weight = recipe.element + recipe.weight_scales;
  const double in_8_bits = calibration.fp8_gemm_efficiency > 0
                               ? calibration.fp8_gemm_efficiency
                               : kFp8Share * calibration.gemm_efficiency_in(scenario.framework.software);
  const bool own = recipe.element < 1 && calibration.fp4_gemm_efficiency > 0;
  const double efficiency = (own ? calibration.fp4_gemm_efficiency : in_8_bits) * (rates.by_rows ? recipe.rate_by_rows : 1);
  rates.gemm =
      type.has_rates() ? type.peak_for(scenario.precision) * efficiency : ComputeRate(std::numeric_limits<double>::infinity());
  return rates;
}

// A 4-bit weight is read, and written in the products' format. bitsandbytes before 0.48 (September 2025) branched for each
// element: a multiprocessor of the A100 takes 3.0e9 elements a second, 2.1 times as long as their bytes (arXiv 2604.02556: 2.0
// to 2.2 times; bitsandbytes pull request 1747: 1.4 to 2.1 on A100 and H100, none for large weights on A10, L4 and RTX 4090,
// whose multiprocessors have less bandwidth each).
double unpacking(const DeviceRates& r, int software) {
  constexpr double kBranchingElements = 3.0e9, kMostSlower = 2.1;
  constexpr int kWithoutBranches = 2026;
  const double bytes = kNf4Bytes + r.element;
  if (software == 0 || software >= kWithoutBranches || r.multiprocessors == 0) return bytes;
  return std::clamp(r.memory.base() / (kBranchingElements * r.multiprocessors), bytes, kMostSlower * bytes);
}

// A selective scan has an exponential for nine operations on vector units. A multiprocessor takes 16 exponentials a clock, next
// to 64 products and additions (compute capability 8.0) or 128 (CUDA C++ Programming Guide, throughput of arithmetic
// instructions).
double seconds_of_scan(const DeviceType& type) {
  const double peak = type.peak_for(Precision::Fp32).base();
  if (!type.has_rates() || peak <= 0) return 0;
  const double lanes = type.compute_capability <= 0 ? 0 : type.compute_capability < 8.5 ? 64 : 128;
  return (1 + lanes / (16 / 2 * 9)) / peak;
}

}  // namespace

DeviceRates device_rates(const DeviceType& type, const Calibration& calibration, const Scenario& scenario) {
  const Framework& framework = scenario.framework;
  DeviceRates r;
  r.element = static_cast<double>(size_of(compute_dtype(scenario.precision)).base());
  const double infinite = std::numeric_limits<double>::infinity();
  r.operand = r.element;
  const ComputeRate peak = type.has_rates() ? type.peak_for(outside_products(scenario.precision)) : ComputeRate(infinite);
  r.narrow = rates_of_narrow(type, calibration, scenario);
  r.gemm = peak * calibration.gemm_efficiency_in(framework.software);
  r.unaligned = peak * calibration.unaligned_gemm_efficiency;
  r.attention = peak * calibration.attention_efficiency;
  r.multiprocessors = type.multiprocessors;
  r.wave_quantisation = calibration.wave_quantisation;
  r.gemm_fill = calibration.gemm_fill;
  r.attention_ramp = calibration.attention_ramp;
  r.memory = type.has_rates() ? type.memory_bandwidth * calibration.memory_efficiency : Bandwidth(infinite);
  r.scan = seconds_of_scan(type);
  r.kernel_gap = type.has_rates() ? calibration.kernel_gap : Duration(0);
  // The device's scale was found with the count of fused kernels, and belongs to it alone.
  const double scale = framework.elementwise == Elementwise::Fused ? calibration.elementwise_scale : 1;
  r.elementwise_factor = framework.elementwise_factor * scale;
  r.replicated_factor = framework.replicated_factor > 0 ? framework.replicated_factor * scale : r.elementwise_factor;
  r.elementwise = framework.elementwise;
  r.normalization = framework.normalization;
  r.activation = framework.activation;
  r.expert_products = framework.expert_products;
  r.loss_in_chunks = framework.loss.in_chunks;
  r.samples = scenario.samples;
  const bool autocast = framework.autocast && is_mixed(scenario.precision);
  r.residual = autocast ? kFp32 : r.element;
  r.weight_cast = autocast ? kFp32 + r.element : 0;
  // The softmax's result stays in fp32, in addition to the copy that the product reads; dropout keeps its own result instead of
  // that copy.
  if (autocast && framework.attention == AttentionKernel::Unfused) r.score_kept = framework.dropout ? kFp32 - r.element : kFp32;
  r.accumulation = accumulation_traffic(scenario, r.element);
  r.head_accumulation = framework.gradient_accumulation == GradientAccumulation::Fused ? kHeadAccumulation : r.accumulation;
  choose_attention(framework, calibration, autocast, r);
  if (scenario.workload.tuning.quantized) r.unpacking = unpacking(r, framework.software);
  r.dropout = framework.dropout;
  // In chunks the backward does the forward again: the figure holds three passes.
  const double once = framework.loss.bytes_per_logit / (framework.loss.in_chunks ? 1 + kLossForward : 1);
  r.loss_forward_bytes = kLossForward * once + kMetricBytes * framework.training_metrics;
  r.loss_backward_bytes = (framework.loss.in_chunks ? once : (1 - kLossForward) * once);
  r.loss_live_bytes = framework.loss_live_bytes_per_logit;
  r.gathered_kept = framework.keep_gathered_inputs;
  r.replicated_saved_factor = framework.replicated_saved_factor;
  r.sharded_saved_factor = framework.sharded_saved_factor;
  return r;
}

namespace {

// Tiles of cuBLAS's kernels, a block of threads each, and what their inner loop reaches of the largest's rate: smaller tiles read
// more for the same work.
struct Tile {
  double m, n, share;
};
constexpr std::array kTiles = {Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.92}, Tile{128, 64, 0.80},
                               Tile{64, 64, 0.62}};
constexpr double kPartialBytes = 8;  // a partial sum of a split inner dimension, written and read in fp32

// Work that the device does for a product in whole waves of tiles, at the rate of the best choice of tile and split.
double quantised_work(double batch, double m, double n, double k, const DeviceRates& rates) {
  const double processors = rates.multiprocessors;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    for (const double split : {1.0, 2.0, 4.0, 8.0}) {
      const double blocks = batch * std::ceil(m / tile.m) * std::ceil(n / tile.n) * split;
      double work = std::ceil(blocks / processors) * processors * tile.m * tile.n * 2 * std::ceil(k / split) / tile.share;
      if (split > 1) work += kPartialBytes * split * batch * m * n / rates.memory.base() * rates.gemm.base();
      least = std::min(least, work);
    }
  }
  return least;
}

// Work of a product as the device feels it: grows with every size.
Flops felt_work(double batch, double m, double n, double k, const DeviceRates& rates) {
  const double work = 2 * batch * m * n * k;
  if (rates.multiprocessors <= 0 || rates.wave_quantisation <= 0 || !std::isfinite(rates.gemm.base())) return Flops(work);
  const double whole_waves = std::max(work, quantised_work(batch, m, n, k, rates));
  return Flops(work + (whole_waves - work) * rates.wave_quantisation);
}

}  // namespace

Breakdown gemm_cost(const GemmShape& g, const DeviceRates& rates) {
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  const double batch = static_cast<double>(g.batch);
  Breakdown cost;
  cost.work = Flops(2 * batch * m * n * k);
  const double bytes = batch * (rates.operand * (m * k + k * n) + rates.element * m * n);
  cost.traffic = whole_bytes(bytes);
  const Duration multiplied = felt_work(batch, m, n, k, rates) / rates.gemm, moved(bytes / rates.memory.base());
  const Duration loop = std::max(multiplied, moved);
  if (moved > multiplied) cost.operands = moved;
  // A thread block fills its stages of copies before the first product and drains them after the last. With one or two blocks per
  // multiprocessor nothing hides this time; it equals that of this many additional elements of k. The traffic of the loop does
  // not repeat for it.
  cost.compute = rates.gemm_fill > 0 ? loop + felt_work(batch, m, n, rates.gemm_fill, rates) / rates.gemm : loop;
  cost.total = cost.compute;
  return cost;
}

double attention_scores(const AttentionShape& a) {
  return static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.query_length) *
         static_cast<double>(a.key_length);
}

namespace {

// Whole blocks on the edges of a window, relative to what a causal mask has for as many attended keys: the mask's diagonal, and a
// second one at the window's far end, which the first queries lack.
double edges_of_window(const AttentionShape& a) {
  if (a.window <= 0 || a.window >= a.key_length || a.chosen) return 1;
  const double second = 1 - static_cast<double>(a.window) / static_cast<double>(a.key_length);
  return (1 + second) * (0.5 / a.attended_share());
}

}  // namespace

AttentionCost attention_cost(const AttentionShape& a, const DeviceRates& rates) {
  const double scores = attention_scores(a);
  AttentionCost cost;
  if (rates.flash) {
    // Two products of 2 x head_size per score; a causal mask skips half of the blocks.
    cost.forward.work =
        Flops(2 * scores * static_cast<double>(a.head_size + a.values()) * a.attended_share() * packed_share(a, rates.samples));
    // Short sequences: blocks on the diagonal are done whole, and few queries share the reading of keys.
    const double at_a_time = static_cast<double>(a.key_length) / static_cast<double>(a.blocks);
    const double keys = rates.samples.any() ? std::min(at_a_time, rates.samples.of_a_token()) : at_a_time;
    const double ramp = (1 + rates.attention_ramp * edges_of_window(a) / keys) / (1 + rates.attention_ramp / kRampAt);
    const double narrow = std::pow(std::max(1.0, kNamedHead / static_cast<double>(a.head_size)), rates.head_exponent);
    cost.forward.compute = cost.forward.work / rates.attention * ramp * narrow;
    cost.backward.work = cost.forward.work * kFlashWork;
    cost.backward.compute = cost.forward.compute * rates.flash_backward;
  } else {
    DeviceRates products = rates;
    if (a.head_size % kTensorCoreAlignment != 0) {
      products.gemm = rates.unaligned;
      products.multiprocessors = 0;  // other kernels, with tiles of their own
      products.gemm_fill = 0;
    }
    const std::int64_t batch = a.batch * a.heads;
    const Breakdown both = gemm_cost({batch, a.query_length, a.key_length, a.head_size}, products) +
                           gemm_cost({batch, a.query_length, a.values(), a.key_length}, products);
    const double mask = a.causal ? rates.score_mask : 0;
    cost.forward = both + traffic_cost(scores * (rates.score_forward + mask), rates);
    cost.backward = both + both + traffic_cost(scores * (rates.score_backward + mask), rates);
  }
  for (Breakdown* pass : {&cost.forward, &cost.backward}) {
    if (rates.flash) pass->attention = pass->compute;
    pass->total = pass->compute + pass->memory;
  }
  return cost;
}

Breakdown traffic_cost(double bytes, const DeviceRates& rates) {
  Breakdown cost;
  cost.traffic = whole_bytes(bytes);
  cost.memory = Duration(bytes / rates.memory.base());
  cost.total = cost.memory;
  return cost;
}

}  // namespace panpipe
