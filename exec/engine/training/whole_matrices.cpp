#include "exec/engine/training/whole_matrices.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "exec/engine/rank_groups.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {

WholeMatrices::WholeMatrices(RankSite& site, bool blockwise, const ShardedParameters* sharded) : site_(site), sharded_(sharded) {
  if (site.plan.tensor == 1 || blockwise) return;
  tensor_ = make_own_group(site.transport, site.plan, Among::Tensor);
}

// The parts of all members, flat, one behind another. Parts of unequal length travel with padding.
at::Tensor WholeMatrices::gathered(int root, const at::Tensor& part, const Group& group,
                                   const std::vector<std::int64_t>& lengths) const {
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const auto member = std::find(group.ranks.begin(), group.ranks.end(), site_.transport.rank()) - group.ranks.begin();
  const at::Tensor all = at::zeros({longest * static_cast<std::int64_t>(lengths.size())}, part.options());
  all.narrow(0, member * longest, part.numel()).copy_(part.reshape({-1}));
  site_.transport.all_gather(all, group)->wait(site_.deadline, fmt::format("the update of {}", site_.graph.tensors[root].name));
  std::vector<at::Tensor> parts;
  for (std::size_t m = 0; m < lengths.size(); ++m)
    parts.push_back(all.narrow(0, static_cast<std::int64_t>(m) * longest, lengths[m]));
  return at::cat(parts);
}

MatrixParts WholeMatrices::parts(int root) const {
  const Tensor& parameter = site_.graph.tensors[root];
  const bool by_elements = sharded_ != nullptr && !sharded_->lengths(root).empty();
  const bool by_shards = tensor_ && is_sharded(parameter) && !parameter.experts;
  if (!by_elements && !by_shards) return {};
  const std::vector<std::int64_t> shape(parameter.shape.begin(), parameter.shape.end());
  MatrixParts made;
  made.whole = [this, root, shape, by_elements, by_shards](const at::Tensor& part) {
    const at::Tensor shard =
        by_elements ? gathered(root, part, sharded_->shard_group(), sharded_->lengths(root)).view(shape) : part;
    if (!by_shards) return shard;
    const std::size_t members = tensor_->ranks.size();
    const at::Tensor all = gathered(root, shard, *tensor_, std::vector<std::int64_t>(members, shard.numel()));
    std::vector<at::Tensor> shards;
    for (const int holder : first_holders(site_.graph.tensors[root], site_.plan))
      shards.push_back(part_of(all, static_cast<std::size_t>(holder), members).view(shape));
    return whole_of(site_.graph.tensors[root], shards);
  };
  made.part = [this, root, by_elements, by_shards](const at::Tensor& whole) {
    const int device = device_of_position(site_.plan, site_.transport.rank());
    const at::Tensor shard = by_shards ? shard_of(site_.graph.tensors[root], whole, device, site_.plan) : whole;
    return by_elements ? sharded_->own_part(root, shard) : shard;
  };
  return made;
}

}  // namespace panpipe::exec
