#include "cli/measure_device/measured_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "costmodel/cost/compute.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/measured_keys.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLargest = 3;  // sizes of copies: the caches of no device hold them
// Backward over forward work, and over forward time in the cost model (costmodel/cost/compute.cpp: kFlashBackward).
constexpr double kBackwardTime = 3.125;
constexpr std::int64_t kLongTokens = 4096, kShortTokens = 512, kWideHead = 128;

struct Quartiles {
  double median = 0, half_range = 0;
};

Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {at(0.5), (at(0.75) - at(0.25)) / 2};
}

std::vector<ordered_json> lines_of(const MeasuredDevice& device, const std::string& quantity, const std::string& form = "") {
  std::vector<ordered_json> found;
  for (const ordered_json& line : device.quantities)
    if (line["quantity"] == quantity && (form.empty() || line.value("form", "") == form) && line["median"] > 0.0)
      found.push_back(line);
  return found;
}

double per_second(const ordered_json& line, const char* work) { return line[work].get<double>() / line["median"].get<double>(); }

std::vector<ordered_json> largest_first(const MeasuredDevice& device, const std::string& quantity) {
  std::vector<ordered_json> lines = lines_of(device, quantity);
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a["size"] > b["size"]; });
  return lines;
}

// The larger spread of two: over the repetitions, and over the sizes.
RateOfSize rate_of_largest(const MeasuredDevice& device, const std::string& quantity) {
  std::vector<ordered_json> lines = largest_first(device, quantity);
  if (lines.size() > kLargest) lines.resize(kLargest);
  std::vector<double> rates;
  double spread = 0;
  for (const ordered_json& line : lines) {
    rates.push_back(per_second(line, "bytes"));
    spread = std::max(spread, line["spread"].get<double>());
  }
  const Quartiles of = quartiles(rates);
  return {of.median, std::max(of.half_range, of.median * spread / 2)};
}

// Of the cost model: the time of a product at the peak, over that measured.
std::optional<MeasuredNumber> products_share(const MeasuredDevice& device, const std::string& key, const std::string& form,
                                             double peak, double bandwidth, const Calibration& of_shape) {
  DeviceRates rates;
  rates.gemm = ComputeRate(peak);
  rates.multiprocessors = device.facts.value("multiprocessors", 0);
  rates.wave_quantisation = of_shape.wave_quantisation;
  rates.gemm_fill = of_shape.gemm_fill;
  rates.memory = Bandwidth(bandwidth);
  rates.element = form == "fp32" || form == "tf32" ? 4 : 2;
  rates.operand = form == "fp8" ? 1 : rates.element;
  std::vector<ordered_json> lines = lines_of(device, "product", form);
  const auto longest =
      std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a["median"] < b["median"]; });
  if (longest == lines.end() || peak <= 0) return std::nullopt;
  const double least = std::min(kLeastProduct, longest->at("median").get<double>());
  std::vector<double> shares;
  double spread = 0;
  for (const ordered_json& line : lines) {
    const double time = line["median"];
    if (time < least) continue;
    shares.push_back(gemm_cost({1, line["m"], line["n"], line["k"]}, rates).total.base() / time);
    spread = std::max(spread, line["spread"].get<double>());
  }
  const Quartiles of = quartiles(shares);
  return MeasuredNumber{
      key, of.median, std::max(of.half_range, of.median * spread / 2),
      fmt::format("the median of {} products in {}, the cost model's time at the peak over that measured", shares.size(), form)};
}

// Seconds per unit of work, forward and backward together, at a length; 0: not measured.
double attention_time(const MeasuredDevice& device, std::int64_t tokens, double& flops, double& spread) {
  double seconds = 0;
  int found = 0;
  for (const char* quantity : {"attention_forward", "attention_backward"}) {
    for (const ordered_json& line : lines_of(device, quantity)) {
      if (line["tokens"] != tokens || line["head"] != kWideHead) continue;
      seconds += line["median"].get<double>();
      spread = std::max(spread, line["spread"].get<double>());
      if (++found == 1) flops = line["flops"];
    }
  }
  return found == 2 ? seconds : 0;
}

void add_attention_share(const MeasuredDevice& device, double peak, std::vector<MeasuredNumber>& numbers) {
  double flops = 0, short_flops = 0, spread = 0;
  const double seconds = attention_time(device, kLongTokens, flops, spread);
  if (seconds <= 0 || peak <= 0) return;
  const double share = flops * (1 + kBackwardTime) / (peak * seconds);
  numbers.push_back({"attention_efficiency", share, share * spread / 2,
                     "scaled_dot_product_attention, causal, 4096 tokens, heads of 128, forward and backward together"});
  const double short_seconds = attention_time(device, kShortTokens, short_flops, spread);
  if (short_seconds <= 0) return;
  // The time per work is (1 + r / tokens) / (1 + r / 4096) of that at 4096 tokens.
  const double ratio = short_seconds / short_flops * flops / seconds;
  const double ramp = (ratio - 1) / (1.0 / kShortTokens - ratio / kLongTokens);
  if (ratio > 1 && ramp > 0)
    numbers.push_back({"attention_ramp", ramp, ramp * spread / 2, "the same at 512 tokens over that at 4096"});
}

void add_host_numbers(const MeasuredDevice& device, std::vector<MeasuredNumber>& numbers) {
  for (const auto& [key, source] : {std::pair("launch", "host time of an operator in the executor"),
                                    std::pair("kernel_gap", "kernels of one element, one behind another")})
    for (const ordered_json& line : lines_of(device, key)) {
      const double median = line["median"];
      numbers.push_back({key, median, median * line["spread"].get<double>() / 2, source});
    }
}

}  // namespace

const DeviceType* shipped_device(const MeasuredDevice& device) {
  return device.gpu ? validation::device_of(validation::gpu_of_driver_name(device.name)) : nullptr;
}

std::string shipped_device_file(const MeasuredDevice& device) {
  return validation::device_file_of(validation::gpu_of_driver_name(device.name));
}

std::map<std::string, double> best_products(const MeasuredDevice& device) {
  std::map<std::string, double> best;
  for (const ordered_json& line : lines_of(device, "product"))
    best[line["form"]] = std::max(best[line["form"]], per_second(line, "flops"));
  return best;
}

RateOfSize memory_rate(const MeasuredDevice& device) { return rate_of_largest(device, "copy"); }
RateOfSize elementwise_rate(const MeasuredDevice& device) { return rate_of_largest(device, "elementwise"); }

double own_bandwidth(const MeasuredDevice& device) {
  for (const RateOfSize& rate : {memory_rate(device), elementwise_rate(device)})
    if (rate.median > 0) return rate.median;
  throw MachineError(
      fmt::format("{}: neither copies nor sums were measured, so the bandwidth of its memory is not known; give it more time "
                  "with --minutes, and memory that no other program holds",
                  device.name));
}

double saturates_at(const MeasuredDevice& device) {
  const double enough = 0.9 * memory_rate(device).median;
  double size = 0;
  for (const ordered_json& line : largest_first(device, "copy")) {
    if (per_second(line, "bytes") < enough) break;
    size = line["size"];
  }
  return size;
}

double copy_rate(const MeasuredDevice& device) {
  double slower = 0;
  for (const ordered_json& line : lines_of(device, "host_copy", "pinned")) {
    if (line["way"] == "both") continue;
    const double rate = per_second(line, "bytes");
    slower = slower > 0 ? std::min(slower, rate) : rate;
  }
  return slower;
}

std::vector<MeasuredNumber> calibration_of(const MeasuredDevice& device) {
  const DeviceType* known = shipped_device(device);
  const std::map<std::string, double> best = best_products(device);
  const auto peak = [&](const std::string& form, Precision precision) {
    const double stated = known != nullptr ? known->peak_for(precision).base() : 0;
    return stated > 0 ? stated : best.contains(form) ? best.at(form) : 0;
  };
  const bool two_bytes = device.gpu && best.contains("bf16");
  const char* form = two_bytes ? "bf16" : "fp32";
  const double products = peak(form, two_bytes ? Precision::Bf16 : Precision::Fp32);
  const double bandwidth = known != nullptr ? known->memory_bandwidth.base() : own_bandwidth(device);
  const RateOfSize moved = elementwise_rate(device);
  Calibration of_shape;
  if (known != nullptr) of_shape = calibration_for(*known);
  // A CPU has no waves of tiles.
  if (!device.gpu) of_shape.wave_quantisation = 0;
  std::vector<MeasuredNumber> numbers;
  const double reached = moved.median > 0 ? moved.median : bandwidth;
  if (auto share = products_share(device, "gemm_efficiency", form, products, reached, of_shape)) numbers.push_back(*share);
  if (auto share = products_share(device, "fp8_gemm_efficiency", "fp8", peak("fp8", Precision::Fp8), reached, of_shape))
    numbers.push_back(*share);
  add_attention_share(device, products, numbers);
  if (moved.median > 0 && bandwidth > 0)
    numbers.push_back({"memory_efficiency", moved.median / bandwidth, moved.uncertainty / bandwidth,
                       "sums of two tensors of the largest sizes over the memory's bandwidth"});
  add_host_numbers(device, numbers);
  std::erase_if(numbers, [&](const MeasuredNumber& number) { return !device_measures(number.key, device.gpu); });
  if (const double faster = device.facts.value("may_be_faster", 0.0); faster > 0) {
    for (MeasuredNumber& number : numbers) {
      number.uncertainty = std::max(number.uncertainty, faster * number.value);
      number.source += "; measured beside other work";
    }
  }
  return numbers;
}

}  // namespace panpipe::cli
