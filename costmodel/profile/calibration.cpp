#include "costmodel/profile/calibration.hpp"

#include <algorithm>

#include "costmodel/profile/sourced_file.hpp"

namespace panpipe {
namespace {

// "flash_2_forward: {value: 192 TFLOP/s, source: ...}" and "flash_2_backward", for each kernel that has a name.
void read_attention_rates(SourcedFile& file, Calibration& c) {
  for (const auto& [name, kernel] : attention_kernels()) {
    if (!is_fused(kernel) || kernel == AttentionKernel::Flash) continue;
    std::string key(name);
    std::replace(key.begin(), key.end(), '-', '_');
    AttentionRates rates;
    file.read(key + "_forward", rates.forward);
    file.read(key + "_backward", rates.backward);
    const bool forward = rates.forward > ComputeRate(0), backward = rates.backward > ComputeRate(0);
    if (forward != backward)
      file.reader().log().error_at_key(file.reader().node(), key + (forward ? "_forward" : "_backward"),
                                       "a kernel's rate has two directions",
                                       "add '" + key + (forward ? "_backward" : "_forward") + "'");
    if (forward && backward) c.attention_rates[kernel] = rates;
  }
}

}  // namespace

Calibration load_calibration(const std::string& name_or_path, const std::string& directory) {
  SourcedFile file("calibration", name_or_path, directory);
  Calibration c;
  c.name = file.name();
  file.read("gemm_efficiency", c.gemm_efficiency, Sign::Positive);
  file.read("earlier_gemm_efficiency", c.earlier_gemm_efficiency, Sign::Positive);
  file.read("fp8_gemm_efficiency", c.fp8_gemm_efficiency, Sign::Positive);
  file.read("fp4_gemm_efficiency", c.fp4_gemm_efficiency, Sign::Positive);
  file.read("wave_quantisation", c.wave_quantisation);
  file.read("gemm_fill", c.gemm_fill);
  file.read("attention_ramp", c.attention_ramp);
  file.read("attention_efficiency", c.attention_efficiency, Sign::Positive);
  read_attention_rates(file, c);
  file.read("memory_efficiency", c.memory_efficiency, Sign::Positive);
  file.read("score_bytes", c.score_bytes);
  file.read("unaligned_gemm_efficiency", c.unaligned_gemm_efficiency, Sign::Positive);
  file.read("launch", c.launch);
  file.read("collective_host", c.collective_host);
  file.read("kernel_gap", c.kernel_gap);
  file.read("step", c.step);
  file.read("fabric_efficiency", c.fabric_efficiency, Sign::Positive);
  file.read("network_efficiency", c.network_efficiency, Sign::Positive);
  file.read("transfer_efficiency", c.transfer_efficiency, Sign::Positive);
  file.read("bridge_efficiency", c.bridge_efficiency, Sign::Positive);
  file.read("transfer_latency", c.transfer_latency);
  file.read("collective_latency", c.collective_latency);
  file.read("elementwise_scale", c.elementwise_scale, Sign::Positive);
  file.read("stage_jitter", c.stage_jitter);
  file.read("optimizer_traffic", c.optimizer_traffic);
  file.read("overlap_loss", c.overlap_loss);
  file.read("launch_contention", c.launch_contention);
  c.devices = file.names("devices");
  file.pass_over("fit");
  c.values = file.values();
  c.sources = file.finish();
  return c;
}

Calibration calibration_for(const DeviceType& type) {
  if (!type.calibration.empty()) return load_calibration(type.calibration, "");
  Calibration c;
  c.name = type.name + ": data sheet, a-priori efficiencies";
  return c;
}

}  // namespace panpipe
