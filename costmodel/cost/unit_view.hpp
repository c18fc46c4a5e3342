// A movable unit as a range of the graph's operators, with the queries that costs need. Internal to this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/profile/recipe.hpp"
#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_cost.hpp"

namespace panpipe {

// How tensors are used in the whole graph; computed once per workload.
struct TensorUse {
  std::vector<std::pair<int, int>> unit_range;  // per unit: first operator, one past its last
  std::vector<bool> crosses;                    // per tensor: used by another unit than its producer's
  std::vector<bool> logits;                     // per tensor: the loss's input, or a tensor that it was made from (logits_of)
  std::vector<bool> normalized;                 // per tensor: the result of a normalization, or a view of it
  // Per operator: the weight with which a product of a transformer block multiplies; -1: none, or a router of experts.
  std::vector<int> product_weight;
  std::vector<bool> transformer;  // per unit: of a transformer layer
  std::vector<int> block;         // per unit: its block in the model's order; -1: outside
  int blocks = 0;
  // Per tensor: bytes of the gradients from all its users (a view of a part counts as that part), and the first user.
  std::vector<double> gradients;
  std::vector<int> first_user;
};
TensorUse tensor_use(const OperatorGraph& graph);

// True if operator `op` multiplies in the format of the scope's recipe: with a weight of sizes that its products support, in a
// block that does not stay in bf16.
bool multiplies_narrow(const OperatorGraph& graph, const TensorUse& use, int op, const NarrowScope& scope);

// One unit and the work of its operators.
struct UnitView {
  const OperatorGraph* graph = nullptr;
  const TensorUse* use = nullptr;
  int first = 0, end = 0;          // operators
  std::vector<OperatorWork> work;  // of operator first + i

  const Operator& op(int i) const { return graph->operators[first + i]; }
  const OperatorWork& of(int i) const { return work[i]; }
  const Tensor& tensor(int t) const { return graph->tensors[t]; }
  int size() const { return end - first; }
  bool inside(int t) const { return tensor(t).producer >= first && tensor(t).producer < end; }
  double bytes(int t) const { return static_cast<double>(tensor(t).bytes().base()); }
  // The tensor that owns this one's memory. Views share memory with their source, as do collectives that keep or can repeat their
  // input. A gathered tensor counts as its shard, which is what Megatron keeps.
  int root(int t) const;
  // The rank's own bytes of keys and values that context-parallel ranks gather.
  double own_bytes(int t) const;
  bool activation(int t) const { return tensor(t).role == TensorRole::Activation; }
  bool logits(int t) const { return use->logits[t]; }
  bool normalized(int t) const { return use->normalized[t]; }
  // Elements of the frozen weight with which operator i, a block's product, multiplies; 0 if the weight is trained.
  double frozen_weight(int i) const {
    const int weight = use->product_weight[first + i];
    return weight < 0 || tensor(weight).requires_gradient ? 0 : static_cast<double>(tensor(weight).elements());
  }
  // Experts of which the rank holds the weights that operator i multiplies with; 0: it is no product of experts.
  int experts_of(int i) const;
  // The operators from the one that puts rows in the order of their experts to the one that adds them up again.
  std::pair<int, int> between_experts() const;
  bool transformer() const { return use->transformer[op(0).unit]; }
};

// Counts only the unit's operators, so a workload of many equal layers is counted once per distinct unit.
UnitView view_of_unit(const OperatorGraph& graph, const TensorUse& use, int unit);

// A hash that is equal for units with equal operators, shapes, formats, inner wiring and outputs. `externals` receives the
// external tensors by first use. Profiles identify units by this hash.
std::uint64_t structure_hash(const OperatorGraph& graph, const TensorUse& use, int unit, std::vector<int>& externals);

// A hash for costs, which also depend on a unit's context: whether it is in a layer, feeds the loss, shares a tensor, or stays in
// bf16.
std::uint64_t cost_hash(const OperatorGraph& graph, const TensorUse& use, int unit, const NarrowScope& scope,
                        std::uint64_t structure);

}  // namespace panpipe
