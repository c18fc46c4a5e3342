// Device calibration: at most a dozen physical numbers per device type, fitted to measured runs or taken from microbenchmarks.
// Each device has a file under scenarios/calibrations/ with the source of every number.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/attention_kernel.hpp"

namespace panpipe {

// Published rates of an attention kernel: causal work, heads of 128, 4096 tokens, 2-byte formats. 0: not published.
struct AttentionRates {
  ComputeRate forward{0}, backward{0};
};

// Best measured products on H100: 1402.6 of 1979 TFLOP/s in 8 bits, 794.5 of 989 in bf16 (stas00/ml-engineering, MAMF).
constexpr double kFp8Share = 0.709 / 0.803;

// The year from which CUDA's libraries multiply at gemm_efficiency where a file distinguishes them from earlier ones.
constexpr int kNewerProducts = 2025;

// The defaults are a-priori values for a device with only a data sheet.
struct Calibration {
  std::string name = "data sheet";
  double gemm_efficiency = 0.85;       // of data-sheet peak, for large matrix products
  double earlier_gemm_efficiency = 0;  // the same with software from before kNewerProducts; 0: the same number
  double fp8_gemm_efficiency = 0;      // the same for products in 8 bits; 0: kFp8Share of gemm_efficiency
  double fp4_gemm_efficiency = 0;      // the same for products in 4 bits; 0: as in 8
  double wave_quantisation = 1;  // share of the loss in a product's last, partly filled wave of tiles that shows in its time
  double gemm_fill = 0;          // filling and draining a product's tiles takes as long as this many elements of k
  double attention_efficiency = 0.40;  // of peak: fused attention, forward, causal work, at 4096 tokens
  double attention_ramp = 0;           // number of tokens at which fused attention reaches half of its rate for long sequences
  std::map<AttentionKernel, AttentionRates> attention_rates;  // per kernel, if published
  double memory_efficiency = 0.85;                            // of data-sheet memory bandwidth
  double elementwise_scale = 1.0;                             // factor on the counted traffic of element-wise operators
  double score_bytes = 9;                                     // traffic per unfused attention score and pass
  double unaligned_gemm_efficiency = 0.03;                    // batched products whose head size is not a multiple of 8
  Duration launch = micros(30);                               // host time per operator, with one process per device
  double launch_contention = 0;             // share of it that waits for another rank's launch: 1 if one process drives all ranks
  Duration collective_host = micros(150);   // host jitter per tensor-parallel collective: x max(0, t-4)/4
  Duration kernel_gap = micros(3);          // device time between kernels
  Duration step = millis(10);               // per step: data, logging, zeroing
  double fabric_efficiency = 0.70;          // of NVLink: collectives
  double network_efficiency = 0.80;         // of NIC rate
  double transfer_efficiency = 0.25;        // of a switch port: stage hand-over
  double bridge_efficiency = 0.94;          // of an NVLink bridge: stage hand-over
  Duration transfer_latency = micros(100);  // software latency of a stage hand-over
  Duration collective_latency = micros(25);    // x (1 + log2 n)
  double stage_jitter = 0.015;                 // relative spread of stage times: x sqrt(2 ln p)
  double optimizer_traffic = 30;               // bytes read and written per parameter of an optimizer step
  double overlap_loss = 0.19;                  // share of a hidden collective's time that returns as compute time
  std::vector<std::string> devices;            // devices it was made for; empty: any device that names it
  std::map<std::string, std::string> sources;  // key -> the number's source
  std::map<std::string, std::string> values;   // key -> the number as written in its file

  // With the software of that year; 0: the newest.
  double gemm_efficiency_in(int year) const {
    const bool earlier = year > 0 && year < kNewerProducts && earlier_gemm_efficiency > 0;
    return earlier ? earlier_gemm_efficiency : gemm_efficiency;
  }
};

// `name_or_path` is a shipped calibration ("a100-80g-sxm"), or a file, relative to `directory` or to the data folder. Throws
// InputError.
Calibration load_calibration(const std::string& name_or_path, const std::string& directory);
// The device's shipped calibration, or a-priori values if it has none.
Calibration calibration_for(const DeviceType& type);

}  // namespace panpipe
