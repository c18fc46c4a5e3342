// Sends rows to the ranks of their experts and back. The router decides how many rows go to each rank, so ranks exchange these
// numbers before they send, and keep them for the way back and for the backward.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>

#include "base/error.hpp"
#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {
namespace {

std::vector<std::int64_t> numbers_of(const at::Tensor& counts) {
  const at::Tensor flat = counts.contiguous();
  const auto* first = flat.const_data_ptr<std::int64_t>();
  return {first, first + flat.numel()};
}

class ExpertRows : public StageOperator {
 public:
  using StageOperator::StageOperator;

  // Without a backward to come the way back is the counts' last use, else it is the backward of the way there.
  void forward(ForwardFlow& flow) override {
    const at::Tensor rows = take(flow, "rows");
    RowCounts& counts = site_.row_counts[key(flow.microbatch)];
    if (there()) flow.values[op().outputs[1]].tensor = agree_on_rows(take(flow, "given"), counts);
    flow.values[op().outputs[0]] = posted(op().forward_collective, there(), rows, counts);
    if (!there() && !flow.recorded) site_.row_counts.erase(key(flow.microbatch));
  }

  void backward(BackwardFlow& flow) override {
    const at::Tensor gradient = flow.take(op().outputs[0]);
    if (!gradient.defined()) return;
    const auto counts = site_.row_counts.find(key(flow.microbatch));
    PANPIPE_CHECK(counts != site_.row_counts.end(), "rows of experts whose way is not known");
    flow.add(tensor_argument(op(), "rows"), posted(op().backward_collective, !there(), gradient, counts->second));
    if (there()) site_.row_counts.erase(counts);
  }

 private:
  // To the experts; else back.
  bool there() const { return op().outputs.size() > 1; }  // rows, and how many of each
  // The counts are made on the way to the experts, and read on the way back.
  std::pair<int, int> key(int microbatch) const {
    return {microbatch, there() ? op().outputs[1] : tensor_argument(op(), "counts")};
  }

  // Exchanges the numbers of rows with the other members. `given`: the experts that rows chose (any shape), or counts of rows,
  // (ranks, experts). Returns the operator's second result, on the host: (sending ranks, experts of this rank), in the order in
  // which the rows arrive.
  at::Tensor agree_on_rows(const at::Tensor& given, RowCounts& counts) const {
    const at::NoGradGuard no_graph;
    const std::int64_t members = group().degree(), experts = site_.graph.routing.experts;
    if (op().forward_collective == CollectiveKind::AllToAll) {
      const at::Tensor asked = at::bincount(given.flatten(), {}, experts).view({members, experts / members});
      at::Tensor arrived = group().swap_numbers(asked);
      counts = {numbers_of(asked.to(at::kCPU).sum(1)), numbers_of(arrived.sum(1))};
      return arrived;
    }
    // Everybody gets all rows of everybody.
    const at::Tensor all = group().swap_numbers(given.unsqueeze(0).expand({members, -1, -1}));
    counts = {std::vector<std::int64_t>(static_cast<std::size_t>(members), given.sum().item<std::int64_t>()),
              numbers_of(all.sum({1, 2}))};
    return all.flatten(0, 1);
  }

  // Forward or backward; `towards` the experts.
  PassTensor posted(CollectiveKind kind, bool towards, const at::Tensor& rows, const RowCounts& counts) const {
    const at::NoGradGuard no_graph;
    const at::Tensor given = towards && kind == CollectiveKind::AllGather ? rows.repeat({group().degree(), 1}) : rows;
    return {{},
            towards ? group().exchange(kind, given, counts.sent, counts.received)
                    : group().exchange(kind, given, counts.received, counts.sent),
            &group()};
  }
};

}  // namespace

StageOperatorPtr make_expert_rows(const StageSite& site, const StagePart& part) {
  return std::make_unique<ExpertRows>(site, part);
}

}  // namespace panpipe::exec
