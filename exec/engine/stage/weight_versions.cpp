#include "exec/engine/stage/weight_versions.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <vector>

#include "exec/engine/stage/weight_copies.hpp"

namespace panpipe::exec {
namespace {

std::size_t slot_of(std::int64_t version) { return static_cast<std::size_t>(version % 2); }

}  // namespace

WeightVersions::WeightVersions(const std::map<int, at::Tensor>& trained, const std::map<int, at::Tensor>& masters,
                               std::int64_t version)
    : latest_(version) {
  const at::NoGradGuard no_graph;
  for (const auto& [root, leaf] : trained) {
    if (!leaf.requires_grad()) continue;
    Entry& entry = entries_[leaf.unsafeGetTensorImpl()];
    entry.root = root;
    entry.leaf = leaf;
    if (const at::Tensor& master = masters.at(root); master.is_alias_of(leaf)) entry.master = master;
    entry.values[slot_of(version)] = leaf.variable_data();
    entry.values[slot_of(version + 1)] = leaf.detach().clone();
  }
}

at::Tensor WeightVersions::stand_in(const at::Tensor& weight, std::int64_t version) const {
  const auto found = entries_.find(weight.unsafeGetTensorImpl());
  return found == entries_.end() ? weight : in_place_of(weight, found->second.values[slot_of(version)]);
}

void WeightVersions::advance() {
  const at::NoGradGuard no_graph;
  const std::size_t from = slot_of(latest_), to = slot_of(latest_ + 1);
  std::vector<at::Tensor> latest, oldest;
  for (auto& [impl, entry] : entries_) {
    latest.push_back(entry.values[from]);
    oldest.push_back(entry.values[to]);
  }
  if (!latest.empty()) at::_foreach_copy_(oldest, latest);
  for (auto& [impl, entry] : entries_) {
    entry.leaf.set_data(entry.values[to]);
    if (entry.master.defined()) entry.master.set_data(entry.values[to]);
  }
  ++latest_;
}

std::map<int, at::Tensor> WeightVersions::older() const {
  std::map<int, at::Tensor> values;
  for (const auto& [impl, entry] : entries_) values[entry.root] = entry.values[slot_of(latest_ + 1)];
  return values;
}

}  // namespace panpipe::exec
