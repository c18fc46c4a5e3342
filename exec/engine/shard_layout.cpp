#include "exec/engine/shard_layout.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "exec/engine/mesh.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/training/gradients.hpp"

namespace panpipe::exec {
namespace {

struct Use {
  std::set<int> groups;
  int operators = 0;
};

// By root: the groups of a position that read it.
std::map<int, Use> uses_on(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, int position,
                           std::map<int, FlatGroup>& groups) {
  std::map<int, Use> uses;
  const auto add = [&](int first, int end, int group) {
    for_each_read(graph, first, end, [&](int root) {
      uses[root].groups.insert(group);
      ++uses[root].operators;
    });
  };
  for (const int s : stages_of(plan, position)) {
    const StageRange& stage = layout.stages[s];
    for (const GatheredRange& part : stage.gathered) {
      groups[part.group].stage = s;
      add(part.first_operator, part.end_operator, part.group);
    }
    if (plan.zero >= 3) continue;
    groups[s].stage = s;
    add(stage.first_operator, stage.end_operator, s);
  }
  return uses;
}

// Parameters of different kinds do not share a buffer: their readers, their other holders, whether they are trained, their type.
using Kind = std::tuple<std::vector<int>, std::vector<int>, bool, DType>;

// Kernels compute to the same bits where their operands begin at such bytes, as tensors with memory of their own do.
constexpr std::int64_t kAlignment = 64;

void add_flats(const OperatorGraph& graph, const std::vector<int>& roots, const Kind& kind, int members, std::int64_t most,
               const std::map<int, Use>& uses, ShardLayout::Position& position) {
  std::vector<FlatParameters> flats;
  std::int64_t elements = 0;
  const auto close = [&] {
    if (!flats.empty()) flats.back().part = (elements + members - 1) / members;
  };
  const std::int64_t aligned = kAlignment / size_of(std::get<3>(kind)).base();
  for (const int root : roots) {
    const std::int64_t count = graph.tensors[root].elements();
    if (flats.empty() || (most > 0 && elements + count > most)) {
      close();
      flats.emplace_back();
      flats.back().trained = std::get<2>(kind);
      elements = 0;
    }
    flats.back().entries.push_back({root, elements, count});
    flats.back().once = flats.back().once && uses.at(root).operators == 1;
    elements += (count + aligned - 1) / aligned * aligned;
  }
  close();
  for (FlatParameters& flat : flats) {
    for (const int group : std::get<0>(kind)) position.groups.at(group).flats.push_back(position.flats.size());
    position.flats.push_back(std::move(flat));
  }
}

// Parameters that others hold too lie apart, and are exchanged with the rest of their group: one bucket, as in predictions.
void report_buckets(const OperatorGraph& graph, const std::vector<FlatParameters>& flats, const Plan& plan,
                    std::int64_t bucket_bytes, FlatGroup& group) {
  std::int64_t bytes = 0;
  group.reports.assign(group.flats.size(), false);
  for (std::size_t i = group.flats.size(); i-- > 0;) {
    const FlatParameters& flat = flats[group.flats[i]];
    const Tensor& any = graph.tensors[flat.entries.front().root];
    const std::int64_t more = flat.part * plan.shard_group() * size_of(any.dtype).base();
    const bool full = bytes == 0 || (plan.zero < 3 && bytes + more > bucket_bytes);
    group.reports[i] = full;
    bytes = full ? more : bytes + more;
  }
}

ShardLayout::Position lay_out(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, int number, bool masters,
                              std::int64_t bucket_bytes, const std::map<int, std::vector<int>>& holders) {
  ShardLayout::Position position;
  const std::map<int, Use> uses = uses_on(graph, plan, layout, number, position.groups);
  std::map<Kind, std::vector<int>> kinds;
  for (const auto& [root, use] : uses) {
    const Tensor& tensor = graph.tensors[root];
    if (!tensor.requires_gradient && plan.zero < 3) continue;
    const auto held = holders.find(root);
    const bool shared = held != holders.end() && held->second.size() > 1;
    kinds[{{use.groups.begin(), use.groups.end()},
           shared ? held->second : std::vector<int>(),
           tensor.requires_gradient,
           tensor.dtype}]
        .push_back(root);
  }
  for (auto& [kind, roots] : kinds) {
    std::int64_t most = 0;
    if (plan.zero < 3) {  // as a backward completes them
      std::reverse(roots.begin(), roots.end());
      const std::int64_t size = size_of(std::get<3>(kind)).base();
      most = bucket_bytes / (masters && size == 2 ? 4 : size);
    }
    add_flats(graph, roots, kind, plan.shard_group(), most, uses, position);
  }
  for (auto& [number_of, group] : position.groups)
    std::sort(group.flats.begin(), group.flats.end(), [&](std::size_t a, std::size_t b) {
      const auto last = [](const FlatParameters& flat) {
        int root = flat.entries.front().root;
        for (const FlatParameters::Entry& entry : flat.entries) root = std::min(root, entry.root);
        return root;
      };
      const FlatParameters &one = position.flats[a], &other = position.flats[b];
      return std::tuple(!one.once, -last(one)) < std::tuple(!other.once, -last(other));
    });
  for (auto& [number_of, group] : position.groups) report_buckets(graph, position.flats, plan, bucket_bytes, group);
  return position;
}

}  // namespace

std::vector<std::int64_t> ShardLayout::pieces(int position, int root) const {
  std::vector<std::int64_t> lengths;
  for (const FlatParameters& flat : positions[position].flats)
    for (const FlatParameters::Entry& entry : flat.entries)
      for (std::int64_t member = 0; entry.root == root && member < members; ++member)
        lengths.push_back(std::max<std::int64_t>(
            0, std::min(entry.first + entry.elements, (member + 1) * flat.part) - std::max(entry.first, member * flat.part)));
  return lengths;
}

ShardLayout make_shard_layout(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, bool masters,
                              std::int64_t bucket_bytes) {
  ShardLayout shards;
  shards.zero = plan.zero;
  shards.members = plan.shard_group();
  const std::map<int, std::vector<int>> holders = holders_of(graph, layout, plan);
  for (int position = 0; position < plan.pipeline; ++position)
    shards.positions.push_back(lay_out(graph, plan, layout, position, masters, bucket_bytes, holders));
  for (const auto& [root, positions] : holders)
    for (const int position : positions)
      PANPIPE_CHECK(shards.pieces(position, root) == shards.pieces(positions.front(), root),
                    "what several positions hold is divided alike on all of them");
  return shards;
}

}  // namespace panpipe::exec
