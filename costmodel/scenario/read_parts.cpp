#include "costmodel/scenario/read_parts.hpp"

#include <fmt/format.h>

#include "base/input/declare.hpp"
#include "base/text/counted.hpp"
#include "base/text/did_you_mean.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/degrees/check_degrees.hpp"

namespace panpipe {

using namespace key_parts;

std::string place_of(MapReader& scenario, const std::string& path) {
  const auto& values = scenario.log().resolved_values();
  for (auto value = values.rbegin(); value != values.rend(); ++value)
    if (value->path == path && value->origin != "default") return value->origin;
  const Node* parent = scenario.node().find(path.substr(0, path.find('.')));
  return parent != nullptr ? origin_of(*parent) : origin_of(scenario.node());
}

std::string device_place(MapReader& scenario) {
  const auto& values = scenario.log().resolved_values();
  for (const char* path : {"cluster.devices", "cluster.nodes"})
    for (const ResolvedValue& value : values)
      if (value.path == path && value.origin != "default") return value.origin;
  return place_of(scenario, "cluster");
}

bool is_auto(const Node* node) { return node != nullptr && node->kind == NodeKind::Scalar && node->text == "auto"; }

namespace {

// The node to put a caret at for a complaint about the degrees: the key, `parallel` itself, or the whole scenario.
const Node& parallel_node(MapReader& scenario, std::string_view key) {
  const Node* parallel = scenario.node().find("parallel");
  if (parallel == nullptr) return scenario.node();
  const Node* value = parallel->kind == NodeKind::Map ? parallel->find(std::string(key)) : nullptr;
  return value != nullptr ? *value : *parallel;
}

}  // namespace

bool read_auto(MapReader& reader, const std::string& key, const std::string& fallback) {
  if (!is_auto(reader.node().find(key))) return false;
  const Node& node = *reader.find(key);
  if (!fallback.empty()) reader.log().resolved(node.path, fallback, origin_of(node) + ", auto");
  return true;
}

namespace {

const Choices<ContextExchange>& context_exchanges() {
  static const Choices<ContextExchange> all = {
      {"ring", ContextExchange::Ring}, {"all-gather", ContextExchange::AllGather}, {"ulysses", ContextExchange::Ulysses}};
  return all;
}

// One key of `parallel:`.
void read_axis(MapReader& reader, const Axis& axis, Degrees& degrees) {
  const std::string key(axis.key);
  const bool has_default = axis.otherwise.empty();
  if (read_auto(reader, key, has_default ? axis.text(Degrees{}) : "")) return;
  if (reader.find(key) == nullptr && !has_default) return;
  axis.put(degrees, axis.flag != nullptr ? int{reader.boolean(key, false)} : reader.integer(key, axis.least, axis.of(Degrees{})));
}

}  // namespace

void suggest_names(MapReader& reader, std::span<const NamePair> names, const std::string& prefix) {
  for (const auto& [given, name] : names)
    if (const std::string key(given); reader.has(key))
      reader.refuse(key, fmt::format("unknown key '{}', {}", given, did_you_mean(prefix + std::string(name))), "",
                    code::kUnknownKey);
}

std::vector<NamePair> other_degree_names() {
  std::vector<NamePair> names;
  for (const Axis& axis : kAxes)
    if (!axis.short_name.empty()) names.emplace_back(axis.short_name, axis.key);
  return names;
}

Key parallel_key() {
  std::vector<Key> keys;
  for (const Axis& axis : kAxes) {
    Key key = declare(std::string(axis.key), axis.meaning, axis.flag != nullptr ? form::truth() : form::whole(axis.least),
                      Otherwise{axis.otherwise});
    key.words = {"auto"};
    if (axis.otherwise.empty()) key.fallback = axis.text(Degrees{});
    // Every exporter states these; the others have words in some.
    if (axis.always || axis.key == "sequence_parallel" || axis.key == "virtual_stages") key.exports = InExports::Stated;
    if (axis.flag == nullptr && !axis.always) key.example = std::to_string(axis.least);
    keys.push_back(std::move(key));
  }
  Key exchange = declare("context_exchange",
                         "keys and values are brought together by a ring during attention, by `all-gather` before it, or heads "
                         "are exchanged for the sequence (`ulysses`)",
                         Fallback{"ring"}, Page{"models/context.md"});
  exchange.words = names_of(context_exchanges());
  keys.push_back(std::move(exchange));
  return declare("parallel", "the degrees of parallelism", Inside{std::move(keys)}, InExports::Reported);
}

void read_parallel(MapReader& reader, Scenario& scenario) {
  Degrees& degrees = scenario.degrees;
  degrees.pipeline = 0;
  const Section section(reader, "parallel");
  MapReader parallel(section.node(), reader.log());
  for (const Axis& axis : kAxes) read_axis(parallel, axis, degrees);
  if (parallel.find("context_exchange") != nullptr)  // among the known keys when absent
    scenario.context_exchange = parallel.choice<ContextExchange>("context_exchange", context_exchanges());
  // A planner may choose what is open: only what holds for any choice is checked.
  for (const DegreeProblem& problem : check_degrees(degrees, {.replicas = !is_auto(section.node().find("data")), .all = false}))
    reader.log().error(parallel_node(reader, problem.key), problem.message, problem.help);
  suggest_names(parallel, other_degree_names());
  parallel.finish();
}

void fit_to_devices(MapReader& scenario, const Cluster& cluster, Degrees& degrees) {
  DegreeFacts facts{.devices = cluster.size(), .devices_from = device_place(scenario), .replicas = false, .all = false};
  if (degrees.pipeline > 0) {
    facts.stated = place_of(scenario, "parallel.pipeline");
    for (const DegreeProblem& problem : check_degrees(degrees, facts))
      scenario.log().error(parallel_node(scenario, problem.key), problem.message, problem.help);
    return;
  }
  const double product = static_cast<double>(degrees.tensor) * degrees.data * degrees.context;
  const std::int64_t per_rank = product > static_cast<double>(facts.devices) ? facts.devices + 1 : degrees.devices_of_rank();
  const std::string words = fmt::format("tensor {} x {}", degrees.tensor, replicas_text(degrees));
  if (facts.devices % per_rank != 0) {
    const std::string origin = origin_of(parallel_node(scenario, "tensor"));
    degrees.pipeline = 1;
    if (per_rank > facts.devices)
      scenario.log().error(parallel_node(scenario, "tensor"),
                           fmt::format("parallel asks for {:.0f} devices per pipeline rank ({}, {}) but {}", product, words,
                                       origin, devices_text(facts)));
    else
      scenario.log().error(parallel_node(scenario, "tensor"),
                           fmt::format("{}, which cannot be split into pipeline ranks of {} ({}, {})", devices_text(facts),
                                       per_rank, words, origin),
                           "state parallel.pipeline to leave devices unused");
    return;
  }
  degrees.pipeline = static_cast<int>(facts.devices / per_rank);
  scenario.log().resolved("parallel.pipeline", std::to_string(degrees.pipeline),
                          fmt::format("derived: {} / ({})", counted(facts.devices, "device"), words));
}

}  // namespace panpipe
