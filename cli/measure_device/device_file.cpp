#include "cli/measure_device/device_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/input/scalar_text.hpp"
#include "base/text/quantity_text.hpp"
#include "base/version.hpp"
#include "cli/measure_device/measured_rates.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/sourced_file.hpp"

namespace panpipe::cli {
namespace {

using nlohmann::ordered_json;

// To five digits, more than any measurement has.
double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

std::string entry(const std::string& key, const std::string& value, const std::string& more, const std::string& source) {
  return fmt::format("  {}: {{value: {}, {}source: {}}}\n", key, value, more, quoted_scalar(source));
}

std::string number_text(const MeasuredNumber& number, double value) {
  const bool seconds = number.key == "launch" || number.key == "kernel_gap";
  return seconds ? fmt::format("{:.4g} us", value * 1e6) : fmt::format("{:.4g}", value);
}

// The measured numbers; of a shipped card also its file's other ones, which nothing here measures.
std::string calibration_text(const MeasuredDevice& device) {
  std::string text = fmt::format("calibration:\n  name: {}\n", quoted_scalar(device.name + ", measured"));
  std::map<std::string, double> measured;
  for (const MeasuredNumber& number : calibration_of(device)) {
    measured[number.key] = number.value;
    text += entry(number.key, number_text(number, number.value),
                  fmt::format("uncertainty: {}, ", number_text(number, number.uncertainty)), number.source);
  }
  const DeviceType* known = shipped_device(device);
  if (known == nullptr || known->calibration.empty()) return text;
  const Calibration others = load_calibration(known->calibration, "");
  for (const auto& [key, value] : others.values) {
    if (measured.contains(key)) continue;
    const std::string source = fmt::format("{}; {}: {}", kNotMeasured, known->calibration, others.sources.at(key));
    // A card that multiplies more slowly than its file states does so with earlier software, too.
    if (const auto products = measured.find("gemm_efficiency"); key == "earlier_gemm_efficiency" && products != measured.end())
      text += entry(key, fmt::format("{:.4g}", others.earlier_gemm_efficiency * products->second / others.gemm_efficiency), "",
                    source + "; times this card's gemm_efficiency over that file's");
    else
      text += entry(key, value, "", source);
  }
  return text;
}

// A card without a data sheet here: its best measured rates stand for it.
std::string rates_text(const MeasuredDevice& device) {
  std::string text = fmt::format("memory_bandwidth: {}\n", exact_text(Bandwidth(rounded(own_bandwidth(device)))));
  std::string peaks;
  for (const auto& [form, rate] : best_products(device))
    peaks += fmt::format("{}{}: {}", peaks.empty() ? "" : ", ", form, exact_text(ComputeRate(rounded(rate))));
  return text + fmt::format("peak: {{{}}}\n", peaks);
}

// A line of JSON as a flow map without quotes around its keys.
std::string flow_map(const ordered_json& line) {
  std::string text;
  for (const auto& [key, value] : line.items())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key,
                        value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : value.dump());
  return "{" + text + "}";
}

std::string measured_text(const MeasuredDevice& device) {
  std::string text = "measured:\n";
  for (const auto& [key, value] : device.facts.items()) text += fmt::format("  {}: {}\n", key, value.dump());
  text += "  quantities:\n";
  for (const ordered_json& line : device.quantities) text += "  - " + flow_map(line) + "\n";
  if (!device.unknown.empty()) text += "  unknown:\n";
  for (const ordered_json& line : device.unknown)
    text += fmt::format("  - {{what: {}, why: {}}}\n", line["unknown"].dump(), line["why"].dump());
  if (!device.notes.empty()) text += "  notes:\n";
  for (const std::string& note : device.notes) text += fmt::format("  - {}\n", quoted_scalar(note));
  return text;
}

}  // namespace

std::string device_file(const MeasuredDevice& device) {
  const DeviceType* known = shipped_device(device);
  std::string text =
      fmt::format("# {}, measured by panpipe measure-device; docs/measure-device.md explains the form\n", device.name);
  text += "panpipe: 1\nkind: device\n";
  if (known != nullptr)
    text += fmt::format("file: {}\nname: {}\n", shipped_device_file(device), scalar_text(known->name));
  else
    text += fmt::format("name: {}\nprocessor: {}\n", quoted_scalar(device.name), device.gpu ? "gpu" : "cpu");
  text += fmt::format("driver_name: {}\n", quoted_scalar(device.name));
  if (device.facts.contains("memory") && known == nullptr)
    text += fmt::format("memory: {}\n", exact_text(Bytes(device.facts["memory"].get<std::int64_t>())));
  if (known == nullptr) {
    text += rates_text(device);
    if (device.facts.contains("multiprocessors"))
      text += fmt::format("multiprocessors: {}\n", device.facts["multiprocessors"].dump());
    if (device.facts.contains("compute_capability"))
      text += fmt::format("compute_capability: {:g}\n", device.facts["compute_capability"].get<double>());
  }
  // A CPU computes in its host's memory; a device needs the key.
  const double copies = copy_rate(device);
  if (copies > 0)
    text += fmt::format("copy_bandwidth: {}\n", exact_text(Bandwidth(rounded(copies))));
  else if (known == nullptr)
    text += fmt::format("copy_bandwidth: {}\n", exact_text(Bandwidth(rounded(own_bandwidth(device) / 2))));
  return text + calibration_text(device) + measured_text(device);
}

ordered_json device_document(const MeasuredDevice& device) {
  ordered_json document = {{"schema", "panpipe-device/1"}, {"version", kVersion}, {"device", device.name}};
  document["measured"] = device.facts;
  document["calibration"] = ordered_json::array();
  for (const MeasuredNumber& number : calibration_of(device))
    document["calibration"].push_back(
        {{"key", number.key}, {"value", number.value}, {"uncertainty", number.uncertainty}, {"source", number.source}});
  document["quantities"] = device.quantities;
  document["unknown"] = ordered_json::array();
  for (const ordered_json& line : device.unknown)
    document["unknown"].push_back({{"what", line["unknown"]}, {"why", line["why"]}});
  document["notes"] = device.notes;
  return document;
}

std::string device_text(const MeasuredDevice& device) {
  std::string text = device.name + "\n";
  for (const auto& [form, rate] : best_products(device))
    text += fmt::format("  {:<18} {} at best\n", "products, " + form, to_text(ComputeRate(rate)));
  if (const RateOfSize moved = memory_rate(device); moved.median > 0) {
    const double least = saturates_at(device);
    text += fmt::format("  {:<18} {}{}\n", "copies inside", to_text(Bandwidth(moved.median)),
                        least > 0 ? fmt::format(", from {} on", to_text(Bytes(least))) : "");
  }
  if (const double copies = copy_rate(device); copies > 0)
    text += fmt::format("  {:<18} {}, pinned, the slower way\n", "copies to the host", to_text(Bandwidth(copies)));
  for (const MeasuredNumber& number : calibration_of(device))
    text += fmt::format("  {:<20} {} +- {}\n", number.key, number_text(number, number.value),
                        number_text(number, number.uncertainty));
  std::map<std::string, std::set<std::string>> by_reason;
  for (const ordered_json& line : device.unknown) by_reason[line["why"]].insert(line["unknown"].get<std::string>());
  for (const auto& [why, what] : by_reason)
    text += fmt::format("  unknown: {}{}: {}\n", *what.begin(),
                        what.size() > 1 ? fmt::format(" and {} more", what.size() - 1) : "", why);
  for (const std::string& note : device.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

}  // namespace panpipe::cli
