// Attention that two ranks share while each runs a slice (schedule/slice_exchange.hpp). One sends the queries of its slice with
// the keys and values of the sequence's first slices; the other attends with them next to its own and returns the result with
// each row's logarithm of its sum, by which both parts are merged. The backward goes the same way. Both send before they compute
// and receive afterwards, and every pass has one partner, so that no cycle of waits arises.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/rank_site.hpp"
#include "schedule/slice_exchange.hpp"

namespace panpipe::exec {

// Throws InputError where the attentions of a model cannot be shared: with sinks or dropout, or of unlike shapes.
void check_shares_attention(const OperatorGraph& graph);

// The other side of one pass, F or B.
struct AttentionPartner {
  int rank = -1;         // in the world
  int slices = 0;        // as SharedAttention::slices
  int shared = 0;        // attentions: the first ones of both stages
  int giving_stage = 0;  // and slice (StageLayout::slice_index) whose queries are sent: they name the messages
  int giving_slice = 0;
};

class AttentionPartners {
 public:
  // Of the forward and the backward of a pass, of which one at least shares.
  AttentionPartners(RankSite& site, int stage, std::optional<AttentionPartner> forward, std::optional<AttentionPartner> backward,
                    std::string action);

  // The result of attention `op` of the graph for slice `slice`; keys and values are those of all slices up to it. Autograd
  // records it if it is on. A repeated forward (recompute) attends to all of them on its own.
  at::Tensor attend(int op, int slice, const OperatorRow& row, const torch::jit::Stack& stack, const at::Tensor& keys,
                    const at::Tensor& values);

 private:
  RankSite& site_;
  int stage_;
  std::optional<AttentionPartner> forward_, backward_;
  std::string action_;
  std::set<int> attended_;  // whose forward has run
};

// Those of a forward and its backward in an order whose exchange this is; nullptr if neither shares.
std::shared_ptr<AttentionPartners> partners_of(const SliceExchange& exchange, const Action& forward, RankSite& site);

}  // namespace panpipe::exec
