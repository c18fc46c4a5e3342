#include "costmodel/cluster/collective_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "base/input/cached_document.hpp"
#include "base/input/reader.hpp"
#include "base/input/scalar_text.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "costmodel/cluster/value_or_file.hpp"

namespace panpipe {
namespace {

const ReferenceKind kTablesKind{"collectives", "collectives"};

// Sizes with bus bandwidths as times: bytes x bus_factor / bandwidth.
TransferTable times_of_rates(const Node& node, const CollectiveTable& table, ReadLog& log) {
  return read_size_table(node, log, Sign::Positive, "bus bandwidth", "[256 MB, 85 GB/s]", [&](Bytes size, const Node& cell) {
    const auto rate = read_bandwidth(cell, log);
    if (rate && !std::isfinite(rate->base())) log.error(cell, "no collective is infinitely fast");
    const bool usable = rate && std::isfinite(rate->base()) && table.ranks >= 2;
    return usable ? std::optional(size / *rate * bus_factor(table.kind, table.ranks)) : std::nullopt;
  });
}

CollectiveTable read_collective_table(const Node& node, ReadLog& log) {
  MapReader map(node, log);
  CollectiveTable table;
  Choices<std::string> kinds;
  for (const std::string& kind : collective_kinds()) kinds.emplace_back(kind, kind);
  table.kind = map.choice<std::string>("kind", kinds);
  table.ranks = map.integer("ranks", 2);
  table.nodes = map.integer("nodes", 1);
  if (table.nodes > 0 && table.ranks >= 2 && table.ranks % table.nodes != 0)
    log.error_at_key(node, "nodes", fmt::format("{} ranks do not lie evenly on {} nodes", table.ranks, table.nodes),
                     "a table is for groups with equally many ranks on each node");
  if (const Node* rates = map.find("bus_bandwidth")) {
    table.times = times_of_rates(*rates, table, log);
    if (map.find("table")) log.error_at_key(node, "table", "a table is given by times or by bus bandwidths, not by both");
  } else if (const Node* rows = map.require("table")) {
    table.times = read_transfer_table(*rows, log);
    for (const auto& [size, time] : table.times.points)
      if (!(size > Bytes(0)) || !(time > Duration(0))) {
        log.error(*rows, "sizes and times must be positive");
        break;
      }
  }
  map.finish();
  return table;
}

bool comes_before(const CollectiveTable& a, const CollectiveTable& b) {
  const auto& kinds = collective_kinds();
  const auto place = [&](const CollectiveTable& t) {
    return std::make_tuple(std::find(kinds.begin(), kinds.end(), t.kind) - kinds.begin(), t.nodes, t.ranks);
  };
  return place(a) < place(b);
}

CollectiveTables read_tables(const Node& root) {
  ReadLog log;
  MapReader reader(root, log);
  log.throw_if_errors();  // not even a map
  read_heading(reader, kTablesKind.kind, Heading::Optional);
  CollectiveTables result;
  if (const Node* measured = reader.find("measured")) {
    MapReader map(*measured, log);
    for (const Node::Entry& entry : measured->entries) result.measured[entry.key] = map.string(entry.key);
    map.finish();
  }
  if (const Node* list = reader.require("tables")) {
    if (list->kind != NodeKind::Sequence || list->items.empty())
      log.error(*list, "expected a list of tables",
                "for example [{kind: all_reduce, ranks: 16, nodes: 2, table: [[1 MiB, 120 us]]}]");
    std::set<std::tuple<std::string, int, int>> seen;
    for (const NodePtr& item : list->items) {
      CollectiveTable table = read_collective_table(*item, log);
      if (!seen.insert({table.kind, table.ranks, table.nodes}).second)
        log.error(*item, fmt::format("a second table of {} over {} ranks on {} nodes", table.kind, table.ranks, table.nodes));
      if (!table.times.points.empty()) result.tables.push_back(std::move(table));
    }
  }
  reader.finish();
  log.throw_if_errors();
  std::stable_sort(result.tables.begin(), result.tables.end(), comes_before);
  return result;
}

}  // namespace

const std::vector<std::string>& collective_kinds() {
  static const std::vector<std::string> kKinds = {"all_reduce", "all_gather", "reduce_scatter",
                                                  "broadcast",  "send_recv",  "all_to_all"};
  return kKinds;
}

double bus_factor(const std::string& kind, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (kind == "all_reduce") return 2 * share;
  return kind == "broadcast" || kind == "send_recv" ? 1 : share;
}

std::shared_ptr<const CollectiveTables> load_collective_tables(const std::string& path) {
  struct Cached {
    std::shared_ptr<const Node> document;
    std::shared_ptr<const CollectiveTables> tables;
  };
  thread_local std::map<std::string, Cached> cache;                    // by path; each thread reads a table once
  const std::shared_ptr<const Node> document = cached_document(path);  // the same object while the file holds the same text
  Cached& known = cache[path];
  if (known.document == document) return known.tables;
  CollectiveTables tables = read_tables(*document);
  tables.file = path;
  known = {document, std::make_shared<const CollectiveTables>(std::move(tables))};
  return known.tables;
}

CollectiveTables parse_collective_tables(const std::string& text, const std::string& name) {
  return read_tables(*parse_document(text, name, "."));
}

std::string to_yaml(const CollectiveTables& tables, const std::string& heading) {
  std::string out = heading.empty() ? "" : "# " + heading + "\n";
  out += "panpipe: 1\nkind: collectives\n";
  if (!tables.measured.empty()) out += "measured:\n";
  for (const auto& [key, value] : tables.measured) out += fmt::format("  {}: {}\n", key, quoted_scalar(value));
  out += "tables:  # bytes of the full tensor, time\n";
  std::vector<CollectiveTable> sorted = tables.tables;
  std::stable_sort(sorted.begin(), sorted.end(), comes_before);
  for (const CollectiveTable& table : sorted) {
    out += fmt::format("- kind: {}\n  ranks: {}\n  nodes: {}\n  table:\n", table.kind, table.ranks, table.nodes);
    for (const auto& [size, time] : table.times.points)
      out += fmt::format("  - [{}, {:.6g} us]\n", exact_text(size), time.base() * 1e6);
  }
  return out;
}

}  // namespace panpipe
