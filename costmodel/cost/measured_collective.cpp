#include "costmodel/cost/measured_collective.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace panpipe {
namespace {

struct KindName {
  CollectiveKind kind;
  const char* name;
};
constexpr KindName kAllReduce{CollectiveKind::AllReduce, "all_reduce"}, kAllGather{CollectiveKind::AllGather, "all_gather"},
    kReduceScatter{CollectiveKind::ReduceScatter, "reduce_scatter"};

// Between sizes straight in the logarithms. Below them the difference to the model shrinks with the bytes: small messages keep
// the model's latency. Above them measured over modelled stays: what of the difference is latency does not grow as bandwidth
// would.
double time_of(const TransferTable& table, double bytes, const std::function<double(double)>& model) {
  const auto& points = table.points;
  const auto size = [&](std::size_t i) { return static_cast<double>(points[i].first.base()); };
  const auto time = [&](std::size_t i) { return points[i].second.base(); };
  std::size_t above = 0;
  while (above < points.size() && size(above) < bytes) ++above;
  if (above > 0 && above < points.size()) {
    const double share = std::log(bytes / size(above - 1)) / std::log(size(above) / size(above - 1));
    return time(above - 1) * std::pow(time(above) / time(above - 1), share);
  }
  const std::size_t near = above == 0 ? 0 : points.size() - 1;
  const double of_model = model(size(near));
  if (bytes > size(near)) return model(bytes) * time(near) / of_model;
  return model(bytes) + (time(near) - of_model) * bytes / size(near);
}

// The tables of a kind for groups like this one, by growing `axis`: nodes, or the members of one node. Those with as many members
// a node, else those with most.
std::vector<const CollectiveTable*> like(const CollectiveTables& tables, const std::string& kind, const NcclGroup& group) {
  std::vector<const CollectiveTable*> found;
  int in_node = 0;
  for (const CollectiveTable& table : tables.tables) {
    if (table.kind != kind || (table.nodes == 1) != (group.nodes == 1)) continue;
    found.push_back(&table);
    const int has = table.ranks / table.nodes;
    if (in_node != group.in_node && (has == group.in_node || has > in_node)) in_node = has;
  }
  if (group.nodes > 1) std::erase_if(found, [&](const CollectiveTable* t) { return t->ranks / t->nodes != in_node; });
  return found;
}

}  // namespace

std::optional<MeasuredCollective> measured_collective(const CollectiveTables& tables, CollectiveKind kind, double bytes,
                                                      const NcclGroup& group, double start, const MeasuredWhere& where) {
  if (kind == CollectiveKind::AllToAll || kind == CollectiveKind::SendReceive) return std::nullopt;
  std::vector<KindName> names = {kAllReduce};
  if (kind == CollectiveKind::AllGather) names = {kAllGather, kReduceScatter, kAllReduce};
  if (kind == CollectiveKind::ReduceScatter) names = {kReduceScatter, kAllGather, kAllReduce};
  for (const KindName& name : names) {
    const std::vector<const CollectiveTable*> found = like(tables, name.name, group);
    if (found.empty()) continue;
    const auto axis = [&](const CollectiveTable& t) { return group.nodes == 1 ? t.ranks : t.nodes; };
    const int wanted = group.nodes == 1 ? group.members : group.nodes;
    const auto above = std::find_if(found.begin(), found.end(), [&](const CollectiveTable* t) { return axis(*t) >= wanted; });
    const CollectiveTable& high = above == found.end() ? *found.back() : **above;
    const CollectiveTable& low = above == found.begin() || axis(high) <= wanted ? high : **(above - 1);
    // Measured over modelled, of groups that ran alone on the cluster as it was then; the model carries it to this group on this
    // cluster. So a better network makes nothing slower.
    const auto ratio = [&](const CollectiveTable& table) {
      const NcclGroup own = where.alone(table.nodes, table.ranks / table.nodes);
      const auto model = [&](double size) { return where.start + nccl_collective(name.kind, size, own).time; };
      return time_of(table.times, bytes, model) / model(bytes);
    };
    double of_model = ratio(high);
    if (&low != &high) {
      const double share =
          std::log2(static_cast<double>(wanted) / axis(low)) / std::log2(static_cast<double>(axis(high)) / axis(low));
      of_model = std::pow(ratio(low), 1 - share) * std::pow(of_model, share);
    }
    MeasuredCollective result;
    result.time = of_model * (start + nccl_collective(kind, bytes, group).time);
    const auto inside = [&](const CollectiveTable& t) {
      return bytes >= static_cast<double>(t.times.points.front().first.base()) &&
             bytes <= static_cast<double>(t.times.points.back().first.base());
    };
    const bool same = name.kind == kind && wanted >= axis(low) && wanted <= axis(high) && inside(low) && inside(high) &&
                      (group.nodes == 1 || high.ranks / high.nodes == group.in_node);
    if (!same) result.source = CostSource::Extrapolated;
    return result;
  }
  return std::nullopt;
}

}  // namespace panpipe
