#include "costmodel/cluster/nvidia_smi_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "base/input/error_with_caret.hpp"
#include "costmodel/cluster/assemble.hpp"
#include "costmodel/cluster/wiring_defaults.hpp"

namespace panpipe {
namespace {

struct Line {
  int number = 0;
  std::vector<std::string> words;
};

struct Text {
  std::shared_ptr<SourceText> source;
  std::vector<Line> lines;
};

[[noreturn]] void fail(const Text& text, int line, const std::string& word, const std::string& message,
                       const std::string& help = "") {
  throw InputError({diagnostic_at_word(*text.source, line, word, message, help)});
}

// Without the escape sequences with which nvidia-smi underlines its header on a terminal.
std::string without_colours(const std::string& line) {
  std::string result;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && !std::isalpha(static_cast<unsigned char>(line[i]))) ++i;
    } else if (line[i] != '\r') {
      result += line[i];
    }
  }
  return result;
}

Text split(const std::string& text, const std::string& name) {
  Text result{std::make_shared<SourceText>(), {}};
  result.source->name = name;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line = without_colours(line);
    result.source->lines.push_back(line);
    Line words{static_cast<int>(result.source->lines.size()), {}};
    std::istringstream parts(line);
    for (std::string word; parts >> word;) words.words.push_back(word);
    result.lines.push_back(std::move(words));
  }
  return result;
}

bool numbered(const std::string& word, const std::string& prefix) {
  return word.size() > prefix.size() && word.starts_with(prefix) &&
         std::all_of(word.begin() + static_cast<std::ptrdiff_t>(prefix.size()), word.end(),
                     [](unsigned char c) { return std::isdigit(c); });
}

bool is_device(const std::string& word) { return numbered(word, "GPU"); }
bool is_nic(const std::string& word) {
  return numbered(word, "NIC") || numbered(word, "mlx5_") || numbered(word, "mlx4_") || numbered(word, "irdma") ||
         numbered(word, "hfi1_") || numbered(word, "bnxt_re");
}
bool is_relation(const std::string& word) {
  static const std::set<std::string> kPcie = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
  return kPcie.count(word) > 0 || (numbered(word, "NV") && word.size() <= 4);  // NV1 ... NV99
}

// The line of column names: the first that begins with GPU0 and continues with names instead of relations.
const Line* find_header(const Text& text) {
  for (const Line& line : text.lines) {
    if (line.words.empty() || line.words[0] != "GPU0") continue;
    if (line.words.size() < 2 || !is_relation(line.words[1])) return &line;
  }
  return nullptr;
}

class Groups {  // union-find; a group is named by its lowest member
 public:
  explicit Groups(int size) : parent_(static_cast<std::size_t>(size)) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<int>> list(std::size_t at_least) const {
    std::map<int, std::vector<int>> members;
    for (int i = 0; i < static_cast<int>(parent_.size()); ++i) members[find(i)].push_back(i);
    std::vector<std::vector<int>> result;
    for (auto& [lowest, group] : members)
      if (group.size() >= at_least) result.push_back(std::move(group));
    return result;
  }

 private:
  std::vector<int> parent_;
};

void read_rows(const Text& text, const Line& header, std::size_t columns, TopologyMatrix& matrix,
               std::vector<std::string>& affinity) {
  for (const Line& line : text.lines) {
    if (line.number <= header.number || line.words.empty() || !is_device(line.words[0])) continue;
    if (static_cast<int>(matrix.cells.size()) == matrix.devices) break;
    const std::string expected = fmt::format("GPU{}", matrix.cells.size());
    if (line.words[0] != expected) fail(text, line.number, line.words[0], fmt::format("expected the row of {}", expected));
    if (line.words.size() < columns + 1)
      fail(text, line.number, "",
           fmt::format("the row of {} has {} cells, the header names {} columns", expected, line.words.size() - 1, columns));
    for (std::size_t i = 1; i <= columns; ++i)
      if (!is_relation(line.words[i]))
        fail(text, line.number, line.words[i], fmt::format("'{}' is no relation of two devices", line.words[i]),
             "X, NV#, PIX, PXB, PHB, NODE or SYS");
    for (std::size_t nic = 0; nic < matrix.nics.size(); ++nic) {
      const std::string& relation = line.words[1 + static_cast<std::size_t>(matrix.devices) + nic];
      if (relation == "PIX" || relation == "PXB") matrix.near[nic] = true;
    }
    matrix.cells.emplace_back(line.words.begin() + 1, line.words.begin() + 1 + matrix.devices);
    affinity.push_back(line.words.size() > columns + 1 ? line.words[columns + 1] : "");
  }
  if (static_cast<int>(matrix.cells.size()) < matrix.devices)
    fail(text, header.number, "",
         fmt::format("the header names {} devices, but only {} rows follow", matrix.devices, matrix.cells.size()));
}

void check_symmetry(const Text& text, const Line& header, const TopologyMatrix& matrix) {
  for (int i = 0; i < matrix.devices; ++i)
    for (int j = 0; j <= i; ++j) {
      const std::string& here = matrix.cells[i][j];
      const std::string& there = matrix.cells[j][i];
      if ((i == j) != (here == "X"))
        fail(text, header.number, "", fmt::format("GPU{} and GPU{}: '{}' is in the wrong place", i, j, here));
      if (here != there)
        fail(text, header.number, "", fmt::format("GPU{} to GPU{} is '{}', but back it is '{}'", i, j, here, there));
    }
}

}  // namespace

TopologyMatrix parse_topology_matrix(const std::string& content, const std::string& name) {
  const Text text = split(content, name);
  const Line* header = find_header(text);
  if (!header) fail(text, 0, "", "no matrix of 'nvidia-smi topo -m' in this text", "its header begins with GPU0");
  TopologyMatrix matrix;
  std::size_t columns = 0;
  for (; columns < header->words.size(); ++columns) {
    const std::string& word = header->words[columns];
    if (is_nic(word))
      matrix.nics.push_back(word);
    else if (is_device(word) && matrix.nics.empty())
      ++matrix.devices;
    else
      break;
  }
  matrix.near.resize(matrix.nics.size(), false);
  std::vector<std::string> affinity;
  read_rows(text, *header, columns, matrix, affinity);
  check_symmetry(text, *header, matrix);

  Groups roots(matrix.devices), sockets(matrix.devices);
  for (int i = 0; i < matrix.devices; ++i)
    for (int j = i + 1; j < matrix.devices; ++j) {
      const std::string& cell = matrix.cells[i][j];
      const std::string& first = affinity[i];
      const bool same_cpus = !first.empty() && first != "N/A" && first == affinity[j];
      const bool nvlink = cell.starts_with("NV");
      if (nvlink) matrix.nvlinks.push_back({i, j, std::stoi(cell.substr(2))});
      if (cell == "PIX" || cell == "PXB") roots.join(i, j);
      if ((!nvlink && cell != "SYS") || same_cpus) sockets.join(i, j);
    }
  matrix.roots = roots.list(2);
  matrix.sockets = sockets.list(1);
  return matrix;
}

bool has_nvswitch(const TopologyMatrix& matrix, const DeviceType& type) {
  constexpr int kMostLinks = 18;  // of any device so far (H100, Blackwell): used when the device file does not state it
  const int own = type.nvlink_links > 0 ? type.nvlink_links : kMostLinks;
  std::vector<int> shown(matrix.devices, 0);
  for (const NvlinkPair& pair : matrix.nvlinks) {
    shown[pair.first] += pair.links;
    shown[pair.second] += pair.links;
  }
  return std::any_of(shown.begin(), shown.end(), [own](int links) { return links > own; });
}

NodeWiring wiring_from_matrix(const TopologyMatrix& matrix, const DeviceType& type) {
  namespace defaults = wiring_defaults;
  NodeWiring wiring;
  wiring.devices = matrix.devices;
  wiring.device_word = type.kind;
  wiring.peer_access = type.peer_access;
  if (!matrix.nvlinks.empty() && !(type.nvlink_bandwidth > Bandwidth(0)))
    throw InputError(fmt::format("the matrix shows NVLink, but the device {} has no 'nvlink'", type.name));
  if (has_nvswitch(matrix, type)) {
    int links = 0;
    for (const NvlinkPair& pair : matrix.nvlinks) links = std::max(links, pair.links);
    wiring.fabric = SwitchParameters{type.nvlink_bandwidth * links, defaults::kNvlinkLatency};
  } else {
    for (const NvlinkPair& pair : matrix.nvlinks)
      wiring.links.push_back(
          {pair.first, pair.second, PathClass::Bridge, type.nvlink_bandwidth * pair.links, defaults::kNvlinkLatency});
  }
  wiring.pcie = type.copy_bandwidth;
  if (!matrix.roots.empty()) wiring.roots = RootParameters{matrix.roots, type.copy_bandwidth};
  if (matrix.sockets.size() > 1)
    wiring.sockets = SocketParameters{matrix.sockets, defaults::kSocketLink, defaults::kSocketLatency};
  wiring.peer = PeerParameters{defaults::kPeerLatency};
  if (!type.peer_access) {
    wiring.host = HostParameters{defaults::kHostCopy, std::nullopt, std::nullopt, defaults::kHostLatency, defaults::kHostRelay};
    if (type.copy_bandwidth > Bandwidth(0)) wiring.host->both_ways = type.copy_bandwidth * defaults::kHostBothWays;
  }
  return wiring;
}

Cluster read_topology_matrix(const std::string& text, const std::string& name, const DeviceType& type) {
  const TopologyMatrix matrix = parse_topology_matrix(text, name);
  return assemble_cluster(name, {NodeGroup{type, 1, wiring_from_matrix(matrix, type), std::nullopt}});
}

}  // namespace panpipe
