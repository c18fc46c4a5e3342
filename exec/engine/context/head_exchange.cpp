// Heads for tokens: each context-parallel rank attends with its heads over all tokens (Jacobs et al., arXiv 2309.14509).
#include <ATen/core/grad_mode.h>

#include "exec/engine/context/sequence_share.hpp"
#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {
namespace {

constexpr std::int64_t kTokensOfHeads = 2;  // of (sample, head, token, feature)

// Between all heads of the rank's tokens and the rank's heads of all tokens in order. `grows_tokens`: towards all tokens, else
// back. rows_of_heads() makes the rows for each rank, value_of_rows() the result from the rows that arrive.
at::Tensor rows_of_heads(const at::Tensor& value, bool grows_tokens, int degree) {
  const at::NoGradGuard no_graph;
  const auto sizes = value.sizes();
  if (grows_tokens) return value.reshape({sizes[0], degree, sizes[1] / degree, sizes[2], sizes[3]}).movedim(1, 0).contiguous();
  const at::Tensor ranked = by_ranks(value, kTokensOfHeads, degree);
  return ranked.view({sizes[0], sizes[1], degree, sizes[2] / degree, sizes[3]}).movedim(2, 0).contiguous();
}

at::Tensor value_of_rows(const at::Tensor& rows, bool grows_tokens, int degree) {
  const at::NoGradGuard no_graph;
  const auto sizes = rows.sizes();  // (rank, sample, head, token, feature)
  if (!grows_tokens) return rows.movedim(0, 1).reshape({sizes[1], sizes[2] * degree, sizes[3], sizes[4]});
  const at::Tensor ranked = rows.movedim(0, 2).reshape({sizes[1], sizes[2], sizes[3] * degree, sizes[4]});
  return in_order(ranked, kTokensOfHeads, degree);
}

class HeadExchange : public StageOperator {
 public:
  using StageOperator::StageOperator;

  void forward(ForwardFlow& flow) override { flow.values[op().outputs[0]] = exchanged(take(flow, "self"), grows_tokens()); }
  void backward(BackwardFlow& flow) override {
    if (const at::Tensor gradient = flow.take(op().outputs[0]); gradient.defined())
      flow.add(tensor_argument(op(), "self"), exchanged(gradient, !grows_tokens()));
  }

 private:
  bool grows_tokens() const { return value_argument<std::int64_t>(op(), "grows").value() == kTokensOfHeads; }
  PassTensor exchanged(const at::Tensor& value, bool grows_tokens) const {
    const int degree = group().degree();
    return {{},
            group().post(CollectiveKind::AllToAll, rows_of_heads(value, grows_tokens, degree)),
            &group(),
            [degree, grows_tokens](const at::Tensor& rows) { return value_of_rows(rows, grows_tokens, degree); }};
  }
};

}  // namespace

StageOperatorPtr make_head_exchange(const StageSite& site, const StagePart& part) {
  return std::make_unique<HeadExchange>(site, part);
}

}  // namespace panpipe::exec
