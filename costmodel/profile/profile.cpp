#include "costmodel/profile/profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/input/reader.hpp"
#include "base/input/scalar_text.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"

namespace panpipe {
namespace {

template <class Item, class Read>
std::vector<Item> read_list(MapReader& reader, const std::string& key, Read read) {
  std::vector<Item> items;
  const Node* node = reader.find(key);
  if (node == nullptr) return items;
  if (node->kind != NodeKind::Sequence) {
    reader.log().error(*node, fmt::format("'{}' is a list", key));
    return items;
  }
  for (const auto& item : node->items) items.push_back(read(*item, reader.log()));
  return items;
}

TransferTable read_table(MapReader& map) {
  const Node* node = map.require("table");
  return node != nullptr ? read_transfer_table(*node, map.log()) : TransferTable{};
}

ProfiledUnit read_unit(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  ProfiledUnit unit;
  unit.name = map.string("name");
  unit.structure = map.string("structure");
  unit.forward = map.duration("forward");
  unit.backward = map.duration("backward");
  unit.input_gradient = map.duration("input_gradient");
  unit.weight_gradient = map.duration("weight_gradient");
  unit.saved = map.bytes("saved");
  unit.kept_for_weight = map.bytes("kept_for_weight");
  unit.temporary = map.bytes("temporary");
  unit.spread = map.number("spread", Sign::NonNegative, 0.0);
  unit.operators = map.integer("operators", 0, 0);
  if (const Node* keeps = map.find("keeps"))
    for (const auto& item : keeps->items)
      if (const auto index = read_integer(*item, log, 0)) unit.keeps.push_back(*index);
  map.finish();
  return unit;
}

ProfiledTransfers read_transfers(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  ProfiledTransfers transfers;
  transfers.transport = map.string("transport");
  transfers.from = map.integer("from", 0);
  transfers.to = map.integer("to", 0);
  transfers.table = read_table(map);
  map.finish();
  return transfers;
}

ProfiledCollective read_collective(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  ProfiledCollective collective;
  collective.kind =
      map.choice<std::string>("kind", {{"all_reduce", "all_reduce"}, {"broadcast", "broadcast"}, {"message", "message"}});
  collective.members = map.integer("members", 2);
  collective.table = read_table(map);
  map.finish();
  return collective;
}

ProfiledOptimizer read_optimizer(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  ProfiledOptimizer optimizer;
  optimizer.name = map.string("name");
  optimizer.parameters = map.integer("parameters", 1);
  optimizer.time = map.duration("time");
  map.finish();
  return optimizer;
}

Profile read_profile(const Node& root) {
  ReadLog log;
  MapReader reader(root, log);
  log.throw_if_errors();  // not even a map
  read_heading(reader, "profile");
  Profile profile;
  if (const Node* measured = reader.require("measured")) {
    MapReader map(*measured, log);
    for (const Node::Entry& entry : measured->entries) profile.measured[entry.key] = map.string(entry.key);
    map.finish();
  }
  profile.memory_bandwidth = reader.bandwidth("memory_bandwidth", Sign::NonNegative, Bandwidth(0));
  profile.launch = reader.duration("launch", Sign::NonNegative, Duration(0));
  if (const Node* optimizer = reader.find("optimizer")) profile.optimizer = read_optimizer(*optimizer, log);
  profile.units = read_list<ProfiledUnit>(reader, "units", read_unit);
  profile.transfers = read_list<ProfiledTransfers>(reader, "transfers", read_transfers);
  profile.collectives = read_list<ProfiledCollective>(reader, "collectives", read_collective);
  reader.finish();
  log.throw_if_errors();
  return profile;
}

// To the nanosecond, which is finer than anything that was measured.
std::string time_text(Duration time) {
  const double ns = std::round(time.base() * 1e9);
  return ns >= 1e6 ? fmt::format("{} ms", ns / 1e6) : fmt::format("{} us", ns / 1e3);
}

std::string table_text(const TransferTable& table) {
  std::string out = "[";
  for (const auto& [size, time] : table.points)
    out += fmt::format("{}[{}, {}]", out.size() > 1 ? ", " : "", exact_text(size), time_text(time));
  return out + "]";
}

std::string unit_text(const ProfiledUnit& unit) {
  return fmt::format(
      "- {{name: {}, structure: {}, operators: {},\n   forward: {}, backward: {}, input_gradient: {}, weight_gradient: {},\n"
      "   saved: {}, keeps: [{}], kept_for_weight: {}, temporary: {}, spread: {:.3f}}}\n",
      quoted_scalar(unit.name), quoted_scalar(unit.structure), unit.operators, time_text(unit.forward), time_text(unit.backward),
      time_text(unit.input_gradient), time_text(unit.weight_gradient), exact_text(unit.saved), fmt::join(unit.keeps, ", "),
      exact_text(unit.kept_for_weight), exact_text(unit.temporary), unit.spread);
}

}  // namespace

const ProfiledUnit* Profile::unit(const std::string& name, const std::string& structure) const {
  const ProfiledUnit* equal = nullptr;
  for (const ProfiledUnit& candidate : units) {
    if (candidate.structure != structure) continue;
    if (candidate.name == name) return &candidate;
    if (equal == nullptr) equal = &candidate;
  }
  return equal;
}

const TransferTable* Profile::transfer(int from, int to) const {
  for (const ProfiledTransfers& candidate : transfers)
    if (candidate.from == from && candidate.to == to) return &candidate.table;
  return transfers.empty() ? nullptr : &transfers.front().table;
}

const TransferTable* Profile::collective(const std::string& kind, int members) const {
  for (const ProfiledCollective& candidate : collectives)
    if (candidate.kind == kind && candidate.members == members) return &candidate.table;
  return nullptr;
}

Profile load_profile(const std::string& path) {
  Profile profile = read_profile(*load_document(path));
  profile.file = path;
  return profile;
}

Profile parse_profile(const std::string& text, const std::string& name) { return read_profile(*parse_document(text, name, ".")); }

std::string to_yaml(const Profile& profile) {
  std::string out = fmt::format("panpipe: 1\nkind: profile\nmeasured:{}\n", profile.measured.empty() ? " {}" : "");
  for (const auto& [key, value] : profile.measured) out += fmt::format("  {}: {}\n", key, quoted_scalar(value));
  if (profile.memory_bandwidth > Bandwidth(0))
    out +=
        fmt::format("memory_bandwidth: {:.4g} GB/s  # copying: bytes read and written\n", profile.memory_bandwidth.base() / 1e9);
  if (profile.launch > Duration(0)) out += fmt::format("launch: {}  # host time per operator\n", time_text(profile.launch));
  if (!profile.optimizer.name.empty())
    out += fmt::format("optimizer: {{name: {}, parameters: {}, time: {}}}\n", profile.optimizer.name,
                       profile.optimizer.parameters, time_text(profile.optimizer.time));
  if (!profile.units.empty()) out += "units:  # per microbatch\n";
  for (const ProfiledUnit& unit : profile.units) out += unit_text(unit);
  if (!profile.transfers.empty()) out += "transfers:  # one way, links idle\n";
  for (const ProfiledTransfers& t : profile.transfers)
    out += fmt::format("- {{transport: {}, from: {}, to: {}, table: {}}}\n", t.transport, t.from, t.to, table_text(t.table));
  if (!profile.collectives.empty()) out += "collectives:\n";
  for (const ProfiledCollective& c : profile.collectives)
    out += fmt::format("- {{kind: {}, members: {}, table: {}}}\n", c.kind, c.members, table_text(c.table));
  return out;
}

}  // namespace panpipe
