#include "exec/engine/stage/expert_rows.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>

#include <numeric>

#include "costmodel/workload/operator_table.hpp"

namespace panpipe::exec {
namespace {

std::vector<std::int64_t> numbers_of(const at::Tensor& counts) {
  const at::Tensor flat = counts.contiguous();
  const auto* first = flat.const_data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

}  // namespace

bool leads_to_experts(const Operator& op) { return op.outputs.size() > 1; }  // rows, and how many of each

int counts_of(const Operator& op) { return leads_to_experts(op) ? op.outputs[1] : tensor_argument(op, "counts"); }

at::Tensor agree_on_rows(const Operator& op, const at::Tensor& given, int experts, PassGroup& group, RowCounts& counts) {
  const at::NoGradGuard no_graph;
  const std::int64_t members = group.degree();
  if (op.forward_collective == CollectiveKind::AllToAll) {
    const at::Tensor asked = at::bincount(given.flatten(), {}, experts).view({members, experts / members});
    at::Tensor arrived = group.swap_numbers(asked);
    counts = {numbers_of(asked.to(at::kCPU).sum(1)), numbers_of(arrived.sum(1))};
    return arrived;
  }
  // Everybody gets all rows of everybody.
  const at::Tensor all = group.swap_numbers(given.unsqueeze(0).expand({members, -1, -1}));
  counts = {std::vector<std::int64_t>(static_cast<std::size_t>(members), given.sum().item<std::int64_t>()),
            numbers_of(all.sum({1, 2}))};
  return all.flatten(0, 1);
}

PassGroup::PostedPtr post_rows(CollectiveKind kind, bool there, const at::Tensor& rows, const RowCounts& counts,
                               PassGroup& group) {
  const at::NoGradGuard no_graph;
  if (there && kind == CollectiveKind::AllGather)
    return group.exchange(kind, rows.repeat({group.degree(), 1}), counts.sent, counts.received);
  return there ? group.exchange(kind, rows, counts.sent, counts.received)
               : group.exchange(kind, rows, counts.received, counts.sent);
}

}  // namespace panpipe::exec
