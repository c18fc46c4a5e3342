// The output of `panpipe check --costs`, as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/cost/cost_model.hpp"

namespace panpipe {
namespace {

std::string or_dash(Duration time) { return time == Duration(0) ? "-" : to_text(time); }

using Json = nlohmann::json;

// Units with the same costs share a row.
struct UnitClass {
  std::string name;
  int count = 0;
  const UnitCost* unit = nullptr;
};

bool same_cost(const PassCost& a, const PassCost& b) {
  return a.breakdown.total == b.breakdown.total && a.host == b.host && a.breakdown.work == b.breakdown.work;
}

std::vector<UnitClass> unit_classes(const WorkloadCost& cost) {
  std::vector<UnitClass> classes;
  for (const UnitCost& unit : cost.units) {
    const auto same = [&](const UnitClass& c) {
      return same_cost(c.unit->forward, unit.forward) && same_cost(c.unit->input_gradient, unit.input_gradient) &&
             same_cost(c.unit->weight_gradient, unit.weight_gradient) && c.unit->saved == unit.saved;
    };
    const auto found = std::find_if(classes.begin(), classes.end(), same);
    if (found == classes.end())
      classes.push_back({unit.name, 1, &unit});
    else
      ++found->count;
  }
  return classes;
}

// One pair of devices for each class of path, the first found from the first device of each node.
std::map<PathClass, std::pair<int, int>> pairs_by_path(const Cluster& cluster) {
  std::map<PathClass, std::pair<int, int>> pairs;
  const int limit = std::min(cluster.size(), 64);
  for (int from = 0; from < std::min(limit, 16); ++from)
    for (int to = 0; to < limit; ++to) {
      if (from == to) continue;
      try {
        pairs.try_emplace(cluster.route(from, to).path, std::pair(from, to));
      } catch (const InputError&) {  // unreachable pairs have no row
      }
    }
  return pairs;
}

// The largest tensor that flows between units: a stage hand-over's size.
Bytes handover_bytes(const WorkloadCost& cost) {
  Bytes largest{0};
  for (const UnitEdge& edge : cost.edges) largest = std::max(largest, edge.bytes);
  return largest;
}

void add_pass(TextTable& table, const std::string& unit, const std::string& count, const char* pass, const PassCost& cost,
              const std::string& saved) {
  const Breakdown& b = cost.breakdown;
  table.row({unit, count, pass, or_dash(b.total), or_dash(b.compute), or_dash(b.memory), or_dash(b.communication),
             or_dash(b.launch), b.work > Flops(0) ? to_text(b.work) : "-", std::to_string(cost.host.launches), saved,
             std::string(name_of(b.source))});
}

std::string units_text(const WorkloadCost& cost) {
  TextTable table(
      {"<unit", "", "<pass", "total", "compute", "memory", "collective", "gaps", "work", "launches", "saved", "<source"});
  for (const UnitClass& c : unit_classes(cost)) {
    const Bytes saved = c.unit->saved;
    add_pass(table, c.name, fmt::format("x{}", c.count), "F", c.unit->forward, saved == Bytes(0) ? "" : to_text(saved));
    add_pass(table, "", "", "I", c.unit->input_gradient, "");
    if (cost.split_backward) add_pass(table, "", "", "W", c.unit->weight_gradient, "");
  }
  return table.text();
}

std::string transfers_text(const CostModel& model, Bytes size) {
  TextTable table({"<", "<"});
  for (const auto& [path, pair] : pairs_by_path(model.scenario().cluster)) {
    const TransferCost t = model.transfer(pair.first, pair.second, size, model.scenario().degrees);
    table.row({std::string(name_of(path)),
               fmt::format("device {} to {}: {} = latency {} + {} on the path at {}{}, {}", pair.first, pair.second,
                           to_text(t.time), to_text(t.latency), to_text(t.bytes), percent(t.efficiency),
                           t.gather > Duration(0) ? ", then gathered in " + to_text(t.gather) : "", name_of(t.source))});
  }
  return fmt::format("transfers of {} (unsplit)\n", to_text(size)) + table.text();
}

std::string collectives_text(const WorkloadCost& cost) {
  std::array<std::string, kAmongPasses> text;
  for (const CollectiveCost& c : cost.collectives) {
    const std::string way = c.protocol == Protocol::Simple ? std::string(name_of(c.algorithm))
                                                           : fmt::format("{} {}", name_of(c.algorithm), name_of(c.protocol));
    text[index_of(c.among)] +=
        fmt::format("  {} of {} over {}: {} ({}, latency {}, {} a member), {}\n", name_of(c.kind), to_text(c.bytes), c.members,
                    to_text(c.time), way, to_text(c.latency), to_text(c.wire_bytes), name_of(c.source));
  }
  std::string all;
  for (const Among among : kAmongInPasses)
    if (const std::string& lines = text[index_of(among)]; !lines.empty())
      all += fmt::format("{}-parallel collectives\n{}", name_of(among), lines);
  return all;
}

std::string calibration_text(const Calibration& c) {
  TextTable table({"<", "<", "<"}, 4);
  for (const auto& [key, source] : c.sources) {
    const auto value = c.values.find(key);
    table.row({key, value == c.values.end() ? "" : value->second, source});
  }
  std::string text = fmt::format("  calibration {}\n", c.name) + table.text();
  if (c.sources.empty()) text += "    a-priori efficiencies of docs/models/calibration.md\n";
  return text;
}

Json pass_json(const PassCost& pass) {
  const Breakdown& b = pass.breakdown;
  return {{"total_s", b.total.base()},         {"compute_s", b.compute.base()},
          {"memory_s", b.memory.base()},       {"communication_s", b.communication.base()},
          {"launch_s", b.launch.base()},       {"work_flop", b.work.base()},
          {"traffic_bytes", b.traffic.base()}, {"launches", pass.host.launches},
          {"source", name_of(b.source)}};
}

Json type_json(const CostModel& model, int type) {
  const DeviceType& device = model.scenario().cluster.types[type];
  const Calibration& c = model.calibration(type);
  Json result{{"device", device.name}, {"calibration", {{"name", c.name}, {"values", c.values}, {"sources", c.sources}}}};
  const WorkloadCost& cost = model.units(type);
  for (const UnitClass& u : unit_classes(cost))
    result["units"].push_back({{"name", u.name},
                               {"count", u.count},
                               {"forward", pass_json(u.unit->forward)},
                               {"input_gradient", pass_json(u.unit->input_gradient)},
                               {"weight_gradient", pass_json(u.unit->weight_gradient)},
                               {"saved_bytes", u.unit->saved.base()},
                               {"saved_selective_bytes", u.unit->saved_selective.base()},
                               {"saved_full_bytes", u.unit->saved_full.base()},
                               {"temporary_bytes", u.unit->temporary.base()}});
  for (const CollectiveCost& k : cost.collectives)
    result["collectives"].push_back({{"kind", name_of(k.kind)},
                                     {"among", name_of(k.among)},
                                     {"members", k.members},
                                     {"bytes", k.bytes.base()},
                                     {"algorithm", name_of(k.algorithm)},
                                     {"protocol", name_of(k.protocol)},
                                     {"latency_s", k.latency.base()},
                                     {"time_s", k.time.base()},
                                     {"source", name_of(k.source)}});
  return result;
}

}  // namespace

std::string costs_table(const CostModel& model) {
  const Scenario& scenario = model.scenario();
  std::string text;
  Bytes handover{0};
  for (std::size_t i = 0; i < scenario.cluster.types.size(); ++i) {
    const int type = static_cast<int>(i);
    const WorkloadCost& cost = model.units(type);
    handover = handover_bytes(cost);
    const DeviceType& device = scenario.cluster.types[i];
    text += fmt::format("{} on {}, {}, framework {}\n", model.source().name, device.name, name_of(scenario.precision),
                        scenario.framework.title());
    if (device.has_rates()) text += calibration_text(model.calibration(type));
    if (!device.has_rates() && !model.source().layers)
      text += "  this device has no compute rates: times are unknown (shown as 0)\n";
    text += "one microbatch, per movable unit, on an idle device\n";
    text += units_text(cost);
    text += collectives_text(cost);
  }
  text += transfers_text(model, handover);
  const Degrees degrees = scenario.degrees;
  text += fmt::format("bytes per parameter: weights {:g}, gradients {:g}, optimizer {:g}\n", model.parameter_bytes(degrees),
                      model.gradient_bytes(degrees), model.optimizer_bytes(degrees));
  if (model.scenario().optimizer.name == "muon")
    text += fmt::format("of hidden matrices, which keep one moment: optimizer {:g}\n",
                        model.optimizer_bytes(degrees) - model.state_bytes(degrees));
  text += fmt::format("framework context {}, allocator factor {:g}, logits live {}\n", to_text(model.framework_context()),
                      model.allocator_factor(), to_text(model.loss_bytes_live()));
  return text;
}

std::string costs_json(const CostModel& model) {
  const Degrees degrees = model.scenario().degrees;
  Json result;
  result["schema"] = "panpipe-costs/1";
  for (std::size_t i = 0; i < model.scenario().cluster.types.size(); ++i)
    result["devices"].push_back(type_json(model, static_cast<int>(i)));
  Bytes handover{0};
  if (!model.scenario().cluster.types.empty()) handover = handover_bytes(model.units(0));
  for (const auto& [path, pair] : pairs_by_path(model.scenario().cluster)) {
    const TransferCost t = model.transfer(pair.first, pair.second, handover, degrees);
    result["transfers"].push_back({{"path", name_of(path)},
                                   {"from", pair.first},
                                   {"to", pair.second},
                                   {"tensor_bytes", handover.base()},
                                   {"bytes", t.bytes.base()},
                                   {"latency_s", t.latency.base()},
                                   {"gather_s", t.gather.base()},
                                   {"time_s", t.time.base()},
                                   {"source", name_of(t.source)}});
  }
  result["bytes_per_parameter"] = {{"weights", model.parameter_bytes(degrees)},
                                   {"gradients", model.gradient_bytes(degrees)},
                                   {"optimizer", model.optimizer_bytes(degrees)}};
  result["framework"] = model.scenario().framework.title();
  result["context_bytes"] = model.framework_context().base();
  result["allocator_factor"] = model.allocator_factor();
  return result.dump(2);
}

}  // namespace panpipe
