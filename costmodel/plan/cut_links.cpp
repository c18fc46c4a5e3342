#include "costmodel/plan/cut_links.hpp"

#include <algorithm>
#include <map>

namespace panpipe {

CutLinks::CutLinks(const WorkloadCost& workload) {
  const std::size_t n = workload.units.size();
  std::map<std::pair<int, int>, std::size_t> known;
  int unnamed = -2;  // an edge without tensor is a tensor of its own
  for (const UnitEdge& edge : workload.edges) {
    const auto [entry, is_new] = known.try_emplace({edge.from, edge.tensor >= 0 ? edge.tensor : unnamed--}, tensors_.size());
    if (is_new) tensors_.push_back({edge.from, {}});
    tensors_[entry->second].consumers.push_back({edge.to, edge.bytes.base(), edge.gradient});
  }
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) { return a.producer < b.producer; });
  alive_.resize(n + 1);
  next_unit_.resize(n + 1);
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    Tensor& tensor = tensors_[t];
    std::sort(tensor.consumers.begin(), tensor.consumers.end(), [](const auto& a, const auto& b) { return a.unit < b.unit; });
    chain_ = chain_ && tensor.consumers.back().unit == tensor.producer + 1;
    for (int u = tensor.producer + 1; u <= tensor.consumers.back().unit; ++u) alive_[u].push_back(static_cast<int>(t));
    StageLink next;
    for (const Consumer& consumer : tensor.consumers) {
      if (consumer.unit != tensor.producer + 1) break;
      next.bytes = std::max(next.bytes, consumer.bytes);
      next.gradient = next.gradient || consumer.gradient;
    }
    if (tensor.consumers.front().unit != tensor.producer + 1) continue;
    StageLink& link = next_unit_[static_cast<std::size_t>(tensor.producer) + 1];
    link.from = 1;  // there is one
    link.bytes += next.bytes;
    if (next.gradient) link.gradient_bytes += next.bytes;
    link.gradient = link.gradient || next.gradient;
  }
  for (std::size_t u = 1; u < n; ++u) connected_ = connected_ && next_unit_[u].from == 1 && next_unit_[u].gradient;
}

std::int64_t CutLinks::bytes_across(int cut) const {
  std::int64_t bytes = 0;
  for (const int t : alive_[cut]) bytes += tensors_[t].consumers.front().bytes;
  return bytes;
}

void CutLinks::links(const Cuts& cuts, std::vector<StageLink>& links) const {
  links.clear();
  for (std::size_t p = 0; p < cuts.size(); ++p) {
    const int begin = p == 0 ? 0 : cuts[p - 1];
    const std::size_t first_link = links.size();
    for (const int t : alive_[cuts[p]]) {
      const Tensor& tensor = tensors_[t];
      if (tensor.producer < begin) continue;  // was handed out by an earlier stage
      std::size_t stage = p;
      std::size_t i = 0;
      while (i < tensor.consumers.size()) {
        const int unit = tensor.consumers[i].unit;
        while (stage < cuts.size() && unit >= cuts[stage]) ++stage;  // the stage that holds the unit
        std::int64_t bytes = 0;
        bool gradient = false;
        const int end = stage < cuts.size() ? cuts[stage] : static_cast<int>(alive_.size());
        for (; i < tensor.consumers.size() && tensor.consumers[i].unit < end; ++i) {
          bytes = std::max(bytes, tensor.consumers[i].bytes);
          gradient = gradient || tensor.consumers[i].gradient;
        }
        if (stage == p) continue;
        const auto to = static_cast<int>(stage);
        auto link = std::find_if(links.begin() + static_cast<std::ptrdiff_t>(first_link), links.end(),
                                 [&](const StageLink& known) { return known.to == to; });
        if (link == links.end()) link = links.insert(links.end(), StageLink{static_cast<int>(p), to, 0, 0, false});
        link->bytes += bytes;
        if (gradient) link->gradient_bytes += bytes;
        link->gradient = link->gradient || gradient;
      }
    }
    std::sort(links.begin() + static_cast<std::ptrdiff_t>(first_link), links.end(),
              [](const StageLink& a, const StageLink& b) { return a.to < b.to; });
  }
}

}  // namespace panpipe
