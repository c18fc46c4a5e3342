#include "costmodel/prediction/support.hpp"

#include <cmath>
#include <set>
#include <string_view>

#include "base/index.hpp"
#include "costmodel/profile/calibration.hpp"

namespace panpipe {
namespace {

double error_of(double off) { return std::exp(-off) - 1; }

template <class Has>
SupportedPart part_of(const EvidenceTable& table, const std::string& what, const std::string& value, const Has& has) {
  SupportedPart part{what, value};
  std::set<std::string_view> sources;
  double sum = 0, worst = 0;
  for (const ComparedRuns& group : table.runs) {
    if (!has(group.kind)) continue;
    part.runs += group.runs;
    sources.insert(group.source);
    for (const double off : group.off) sum += std::abs(error_of(off)) * group.runs / static_cast<double>(group.off.size());
    if (std::abs(group.worst) > std::abs(worst)) worst = group.worst;
  }
  part.sources = static_cast<int>(sources.size());
  part.mean_error = part.runs > 0 ? sum / part.runs : 0;
  part.worst_error = error_of(worst);
  return part;
}

bool contains(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

SupportedDevice device_of(const DeviceType& type) {
  const Calibration calibration = calibration_for(type);
  SupportedDevice device{type.name, calibration.name, {}};
  for (const auto& [key, source] : calibration.sources) {
    const auto value = calibration.values.find(key);
    device.numbers.push_back({key, value == calibration.values.end() ? "" : value->second, source, origin_of_number(source)});
  }
  return device;
}

}  // namespace

const char* name_of(NumberOrigin origin) {
  constexpr const char* kNames[] = {"fitted", "measured", "inferred"};
  return kNames[at(origin)];
}

NumberOrigin origin_of_number(const std::string& source) {
  if (contains(source, "say little about it")) return NumberOrigin::Inferred;
  if (source.starts_with("least squares")) return NumberOrigin::Fitted;
  for (const char* words : {"not measured on this device", "inferred", "a-priori", "typical", "assumed"})
    if (contains(source, words)) return NumberOrigin::Inferred;
  return NumberOrigin::Measured;
}

Support support_of(const Scenario& scenario, const Likeness& kind, const EvidenceTable& table) {
  Support support;
  support.interval = table.interval(kind);
  const auto add = [&](const std::string& what, const std::string& value, const auto& has) {
    support.parts.push_back(part_of(table, what, value, has));
    if (support.parts.back().runs == 0) support.never_compared.push_back(what + " " + value);
  };
  using L = const Likeness&;
  add("device", kind.device, [&](L other) { return other.device == kind.device; });
  add("framework", kind.framework, [&](L other) { return other.framework == kind.framework; });
  add("choices", kind.choices, [&](L other) { return other.choices == kind.choices; });
  add("precision", kind.precision, [&](L other) { return other.precision == kind.precision; });
  add("parallelism", kind.parallel, [&](L other) { return other.parallel == kind.parallel; });
  if (kind.schedule != "none") add("schedule", kind.schedule, [&](L other) { return other.schedule == kind.schedule; });
  add("costs from", kind.costs, [&](L other) { return other.costs == kind.costs; });
  if (kind.host_bound) add("a host", "that sets the pace", [](L other) { return other.host_bound; });
  if (kind.costs == "formulas")
    for (const DeviceType& type : scenario.cluster.types)
      if (type.has_rates()) support.devices.push_back(device_of(type));
  return support;
}

}  // namespace panpipe
