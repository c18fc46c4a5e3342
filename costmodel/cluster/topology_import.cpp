#include "costmodel/cluster/topology_import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kCommentColumn = 72;

std::string groups_text(const std::vector<std::vector<int>>& groups) {
  std::string text;
  for (const auto& group : groups) text += fmt::format("{}[{}]", text.empty() ? "" : ", ", fmt::join(group, ", "));
  return "[" + text + "]";
}

// In the units of a data sheet, where that is the value but for its last binary digits: 16.6 GB/s, not 16600000000.000002 B/s.
std::string written(Bandwidth value) {
  const std::string text = fmt::format("{:.12g} GB/s", value.base() / 1e9);
  const auto again = parse_bandwidth(text).value;
  return again && std::abs(*again / value - 1) < 1e-12 ? text : exact_text(value);
}

std::string written(Duration value) {
  const std::string text = fmt::format("{:.12g} us", value.base() * 1e6);
  const auto again = parse_duration(text).value;
  return again && std::abs((*again - value).base()) <= 1e-12 * value.base() ? text : exact_text(value);
}

class Writer {
 public:
  explicit Writer(const TopologyImport& import)
      : import_(import), wiring_(wiring_from_matrix(import.matrix, import.nodes.type)) {}

  std::string write() {
    out_ = fmt::format("# Written by `panpipe import topology` from {}. Correct what your machine does otherwise.\n",
                       import_.source);
    line("panpipe: 1");
    line("kind: cluster");
    line("device: " + import_.reference, import_.nodes.type.name);
    line(fmt::format("nodes: {}", import_.nodes.nodes));
    line(fmt::format("devices_per_node: {}", import_.matrix.devices), "the matrix");
    write_wiring();
    write_network();
    return out_;
  }

 private:
  void line(const std::string& text, const std::string& comment = "") {
    out_ += text;
    if (!comment.empty())
      out_ += std::string(text.size() + 2 < kCommentColumn ? kCommentColumn - text.size() : 2, ' ') + "# " + comment;
    out_ += "\n";
  }

  void write_wiring() {
    line("wiring:");
    if (wiring_.fabric)
      line(fmt::format("  switch: {{bandwidth: {}, latency: {}}}", written(wiring_.fabric->port),
                       written(wiring_.fabric->latency)),
           "more links shown than a device has: an NVSwitch; the device's links, each way");
    write_links();
    const bool pcie = wiring_.pcie && *wiring_.pcie > Bandwidth(0);
    if (pcie) line(fmt::format("  pcie: {{bandwidth: {}}}", written(*wiring_.pcie)), "the device's, each way");
    if (wiring_.roots && pcie)
      line(fmt::format("  roots: {{groups: {}, bandwidth: {}}}", groups_text(wiring_.roots->groups),
                       written(wiring_.roots->uplink)),
           "PIX, PXB; one x16 link upstream (assumed)");
    if (wiring_.sockets)
      line(fmt::format("  sockets: {{groups: {}, bandwidth: {}, latency: {}}}", groups_text(wiring_.sockets->groups),
                       written(wiring_.sockets->link), written(wiring_.sockets->latency)),
           "SYS and CPU affinity; rate of the link between them assumed");
    if (wiring_.peer && wiring_.peer_access && pcie)
      line(fmt::format("  peer: {{latency: {}}}", written(wiring_.peer->latency)), "assumed");
    if (wiring_.host)
      line(fmt::format("  host: {{copy: {}, {}relay: {}, latency: {}}}", written(wiring_.host->copy),
                       wiring_.host->both_ways ? fmt::format("both_ways: {}, ", written(*wiring_.host->both_ways)) : "",
                       written(*wiring_.host->relay), written(wiring_.host->latency)),
           "no peer access; differs threefold between processors: measure yours");
  }

  void write_links() {
    if (wiring_.links.empty()) return;
    const bool alike = std::all_of(wiring_.links.begin(), wiring_.links.end(),
                                   [&](const PairLink& link) { return link.bandwidth == wiring_.links.front().bandwidth; });
    if (alike) {
      std::vector<std::vector<int>> pairs;
      for (const PairLink& link : wiring_.links) pairs.push_back({link.first, link.second});
      line(fmt::format("  bridges: {{pairs: {}, bandwidth: {}, latency: {}}}", groups_text(pairs),
                       written(wiring_.links.front().bandwidth), written(wiring_.links.front().latency)),
           fmt::format("NV{}: the device's rate per link, each way", import_.matrix.nvlinks.front().links));
      return;
    }
    line("  links:", "NV#: # times the device's rate per link, each way");
    for (const PairLink& link : wiring_.links)
      line(fmt::format("  - {{between: [{}, {}], class: bridge, bandwidth: {}, latency: {}}}", link.first, link.second,
                       written(link.bandwidth), written(link.latency)));
  }

  void write_network() {
    const std::size_t shown = import_.matrix.nics.size();
    const auto near = std::count(import_.matrix.near.begin(), import_.matrix.near.end(), true);
    if (shown > 0)
      line(fmt::format("# The matrix shows {} adapters, those for storage included; {} lie beside a device (PIX, PXB).", shown,
                       near));
    if (const auto& network = import_.nodes.network) {
      line(fmt::format("network: {{nics_per_node: {}, bandwidth: {}, latency: {}, oversubscription: {}}}", network->nics_per_node,
                       written(network->nic), written(network->latency), network->oversubscription),
           "of each adapter, one way");
      return;
    }
    line(fmt::format("# network: {{nics_per_node: {}, bandwidth: 25 GB/s, latency: 5 us}}  # for nodes > 1",
                     std::max<std::size_t>(1, shown)));
  }

  const TopologyImport& import_;
  NodeWiring wiring_;
  std::string out_;
};

}  // namespace

std::string adapters_text(const TopologyMatrix& matrix) {
  const auto all = matrix.nics.size(), near = static_cast<std::size_t>(std::count(matrix.near.begin(), matrix.near.end(), true));
  if (all == 0) return "";
  std::string text = fmt::format(", {} network adapter{}", all, all == 1 ? "" : "s");
  if (near > 0 && near < all)
    text += fmt::format(", of which {} {} beside a device (PIX, PXB): if the others are for storage, give --nics {}", near,
                        near == 1 ? "lies" : "lie", near);
  return text;
}

std::string cluster_file_of(const TopologyImport& import) { return Writer(import).write(); }

}  // namespace panpipe
