#include "validation/fit/fit_parameter.hpp"

#include <fmt/format.h>

namespace panpipe::validation {

const std::vector<FitParameter>& fit_parameters() {
  using C = Calibration;
  static const std::vector<FitParameter> all = {
      {"gemm_efficiency", "", 0.5, 1.1, 0.1, -1, [](const C& c) { return c.gemm_efficiency; },
       [](C& c, double v) {
         c.earlier_gemm_efficiency *= v / c.gemm_efficiency;  // a slower card is slower with earlier software, too
         c.gemm_efficiency = v;
       },
       "best measured products reach 0.87 (A100) and 1.02 (RTX 3090 Ti) of the data sheet"},
      {"earlier_gemm_efficiency", "", 0.5, 1.1, 0.1, -1, [](const C& c) { return c.gemm_efficiency_in(1); },
       [](C& c, double v) { c.earlier_gemm_efficiency = v; }, "as gemm_efficiency, software from before 2025", true},
      {"wave_quantisation", "", 0.2, 1.0, 0.3, 0, [](const C& c) { return c.wave_quantisation; },
       [](C& c, double v) { c.wave_quantisation = v; }, "1: nothing runs beside the last wave"},
      {"attention_efficiency", "", 0.15, 0.75, 0.2, -1, [](const C& c) { return c.attention_efficiency; },
       [](C& c, double v) { c.attention_efficiency = v; }, "first kernels 0.25, FlashAttention-2 0.55 to 0.7 (arXiv 2307.08691)"},
      {"elementwise_scale", "", 0.6, 1.5, 0.2, 1, [](const C& c) { return c.elementwise_scale; },
       [](C& c, double v) { c.elementwise_scale = v; }, "the count of bytes is right within some tens of per cent"},
      {"score_bytes", "", 5, 25, 0.4, 0, [](const C& c) { return c.score_bytes; }, [](C& c, double v) { c.score_bytes = v; },
       "7 where one kernel does all (arXiv 2205.05198), 15 to 19 unfused (arXiv 2401.10241, table 6)"},
      {"launch", "us", 5, 80, 0.4, 1, [](const C& c) { return c.launch.base() * 1e6; },
       [](C& c, double v) { c.launch = micros(v); }, "4 us for a launch alone, 20 to 60 for a framework's operator"},
      {"unaligned_gemm_efficiency", "", 0.01, 0.3, 0.5, -1, [](const C& c) { return c.unaligned_gemm_efficiency; },
       [](C& c, double v) { c.unaligned_gemm_efficiency = v; }, "vector units: half of their peak"},
      {"step", "ms", 0.5, 40, 0.7, 1, [](const C& c) { return c.step.base() * 1e3; }, [](C& c, double v) { c.step = millis(v); },
       "data, logging, zeroing"},
      {"fabric_efficiency", "", 0.5, 0.9, 0.1, -1, [](const C& c) { return c.fabric_efficiency; },
       [](C& c, double v) { c.fabric_efficiency = v; }, "nccl-tests: 0.65 to 0.78 of NVLink"},
      {"network_efficiency", "", 0.75, 0.98, 0.1, -1, [](const C& c) { return c.network_efficiency; },
       [](C& c, double v) { c.network_efficiency = v; }, "nccl-tests: 0.84 to 0.96 of the adapters"},
      {"transfer_latency", "us", 20, 500, 0.5, 1, [](const C& c) { return c.transfer_latency.base() * 1e6; },
       [](C& c, double v) { c.transfer_latency = micros(v); },
       "T_comm of arXiv 2401.10241, table 6: 0.38 to 0.76 ms with the bytes"},
      {"stage_jitter", "", 0.002, 0.05, 0.5, 0, [](const C& c) { return c.stage_jitter; },
       [](C& c, double v) { c.stage_jitter = v; }, "spread of equal devices' clocks, some per cent"}};
  return all;
}

std::string value_text(const FitParameter& parameter, double value) {
  return *parameter.unit != '\0' ? fmt::format("{:.4g} {}", value, parameter.unit) : fmt::format("{:.4g}", value);
}

}  // namespace panpipe::validation
