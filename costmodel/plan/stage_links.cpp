#include "costmodel/plan/stage_links.hpp"

#include <algorithm>
#include <tuple>

namespace panpipe {

std::vector<Crossing> crossings(const std::vector<UnitEdge>& edges, const std::vector<int>& stage_of_unit) {
  std::vector<Crossing> found;
  int unnamed = -2;
  for (const UnitEdge& edge : edges) {
    const int from = stage_of_unit[edge.from], to = stage_of_unit[edge.to];
    if (from < 0 || to < 0 || from == to) continue;
    found.push_back({from, to, edge.tensor >= 0 ? edge.tensor : unnamed--, edge.bytes, edge.gradient});
  }
  const auto key = [](const Crossing& c) { return std::tie(c.from, c.to, c.tensor); };
  std::sort(found.begin(), found.end(), [&](const Crossing& a, const Crossing& b) { return key(a) < key(b); });
  std::vector<Crossing> unique;
  for (const Crossing& crossing : found) {
    if (unique.empty() || key(unique.back()) != key(crossing)) {
      unique.push_back(crossing);
      continue;
    }
    unique.back().bytes = std::max(unique.back().bytes, crossing.bytes);
    unique.back().gradient = unique.back().gradient || crossing.gradient;
  }
  return unique;
}

std::vector<StageLink> stage_links(const std::vector<UnitEdge>& edges, const std::vector<int>& stage_of_unit) {
  std::vector<StageLink> links;
  for (const Crossing& crossing : crossings(edges, stage_of_unit)) {
    if (links.empty() || links.back().from != crossing.from || links.back().to != crossing.to)
      links.push_back({crossing.from, crossing.to, 0, 0, false});
    StageLink& link = links.back();
    link.bytes += crossing.bytes.base();
    if (crossing.gradient) link.gradient_bytes += crossing.bytes.base();
    link.gradient = link.gradient || crossing.gradient;
  }
  return links;
}

}  // namespace panpipe
