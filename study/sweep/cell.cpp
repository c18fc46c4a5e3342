#include "study/sweep/cell.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/input/json_input.hpp"

namespace panpipe::study {
namespace {

constexpr std::array<const char*, 6> kNames = {"fits", "does not fit", "refused", "no answer", "not on this machine", "bug"};

}  // namespace

const char* name_of(CellStatus status) { return kNames[at(status)]; }

std::optional<double> SweepCell::metric(const std::string& name) const {
  for (const auto& [key_of_metric, value] : metrics)
    if (key_of_metric == name) return value;
  return std::nullopt;
}

std::string to_line(const SweepCell& cell) {
  nlohmann::ordered_json line = {
      {"index", cell.index}, {"key", cell.key}, {"status", name_of(cell.status)}, {"reason", cell.reason}};
  line["metrics"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : cell.metrics) line["metrics"][name] = value;
  line["plan"] = cell.plan;
  if (!cell.evidence.empty()) line["evidence"] = cell.evidence;
  line["inputs"] = nlohmann::ordered_json::object();
  for (const auto& [path, hash] : cell.inputs) line["inputs"][path] = hash;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<SweepCell> parse_line(const std::string& line) {
  try {
    const auto document = parse_json<nlohmann::ordered_json>(line, "");
    SweepCell cell;
    if (!document.at("index").is_number_unsigned()) return std::nullopt;
    document.at("index").get_to(cell.index);
    document.at("key").get_to(cell.key);
    const std::string status = document.at("status");
    std::size_t which = 0;
    while (which < kNames.size() && status != kNames[which]) ++which;
    if (which == kNames.size()) return std::nullopt;
    cell.status = static_cast<CellStatus>(which);
    document.at("reason").get_to(cell.reason);
    for (const auto& [name, value] : document.at("metrics").items()) cell.metrics.emplace_back(name, value.get<double>());
    document.at("plan").get_to(cell.plan);
    if (document.contains("evidence")) document.at("evidence").get_to(cell.evidence);
    for (const auto& [path, hash] : document.at("inputs").items()) cell.inputs.emplace_back(path, hash.get<std::string>());
    return cell;
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace panpipe::study
