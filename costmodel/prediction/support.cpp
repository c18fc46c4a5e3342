#include "costmodel/prediction/support.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/index.hpp"
#include "costmodel/profile/calibration.hpp"

namespace panpipe {
namespace {

template <class Has>
SupportedPart part_of(const EvidenceTable& table, const std::string& what, const std::string& value, const Has& has) {
  SupportedPart part{what, value};
  std::set<std::string_view> sources;
  double sum = 0;
  for (const ComparedRuns& group : table.runs) {
    if (!has(group.traits)) continue;
    part.runs += group.runs;
    sources.insert(group.source);
    sum += group.mean_error * group.runs;
    if (std::abs(group.worst_error) > std::abs(part.worst_error)) part.worst_error = group.worst_error;
  }
  part.sources = static_cast<int>(sources.size());
  part.mean_error = part.runs > 0 ? sum / part.runs : 0;
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

Support support_of(const Scenario& scenario, const StepTraits& traits, const EvidenceTable& table) {
  Support support;
  const auto add = [&](const std::string& what, const std::string& value, const auto& has) {
    support.parts.push_back(part_of(table, what, value, has));
    if (support.parts.back().runs == 0) support.never_compared.push_back(what + " " + value);
  };
  using T = const StepTraits&;
  add("class", std::string(name_of(traits.of)), [&](T other) { return other.of == traits.of; });
  add("device", traits.device, [&](T other) { return other.device == traits.device; });
  add("framework", traits.framework, [&](T other) { return other.framework == traits.framework; });
  add("precision", traits.precision, [&](T other) { return other.precision == traits.precision; });
  add("parallelism", traits.parallel, [&](T other) { return other.parallel == traits.parallel; });
  if (traits.schedule != "none") add("schedule", traits.schedule, [&](T other) { return other.schedule == traits.schedule; });
  add("all of these", "together", [&](T other) { return other.same_block(traits) && other.schedule == traits.schedule; });
  if (traits.of != StepClass::Profiled && !has_given_costs(scenario))
    for (const DeviceType& type : scenario.cluster.types) {
      const auto known = [&](const SupportedDevice& device) { return device.device == type.name; };  // a slow one has its name
      if (type.has_rates() && std::none_of(support.devices.begin(), support.devices.end(), known))
        support.devices.push_back(device_of(type));
    }
  return support;
}

}  // namespace panpipe
