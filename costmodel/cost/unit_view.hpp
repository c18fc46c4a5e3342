// A movable unit as a range of the graph's operators, with the questions that costs ask of it. Internal to this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_cost.hpp"

namespace panpipe {

// How tensors are used over the whole graph; made once per workload.
struct TensorUse {
  std::vector<std::pair<int, int>> unit_range;  // per unit: first operator, one past its last
  std::vector<bool> crosses;                    // per tensor: consumed by another unit than its producer's
  std::vector<bool> logits;                     // per tensor: the loss's input, or what that was made of (logits_of)
  std::vector<bool> normalized;                 // per tensor: what a normalization made, or a view of that
  // Per operator: multiplies with a weight of a transformer block whose sizes products in 8 bits take, and chooses no experts.
  std::vector<bool> weight_products;
  std::vector<bool> transformer;  // per unit: of a transformer layer
  // Per tensor: bytes of the gradients that all its users make, views of parts as the parts they take, and the first user.
  std::vector<double> gradients;
  std::vector<int> first_user;
};
TensorUse tensor_use(const OperatorGraph& graph);

// One unit and what its operators cost.
struct UnitView {
  const OperatorGraph* graph = nullptr;
  const TensorUse* use = nullptr;
  int first = 0, end = 0;          // operators
  std::vector<OperatorWork> work;  // of operator first + i

  const Operator& op(int i) const { return graph->operators[static_cast<std::size_t>(first + i)]; }
  const OperatorWork& of(int i) const { return work[static_cast<std::size_t>(i)]; }
  const Tensor& tensor(int t) const { return graph->tensors[static_cast<std::size_t>(t)]; }
  int size() const { return end - first; }
  bool inside(int t) const { return tensor(t).producer >= first && tensor(t).producer < end; }
  double bytes(int t) const { return static_cast<double>(tensor(t).bytes().base()); }
  // The tensor whose memory this one shares: views, and collectives that keep or can repeat their input. A gathered tensor
  // stands for the shard it was gathered from, which is what Megatron keeps.
  int root(int t) const;
  // Of keys and values that context-parallel ranks bring together, the rank's own.
  double own_bytes(int t) const;
  bool activation(int t) const { return tensor(t).role == TensorRole::Activation; }
  bool logits(int t) const { return use->logits[static_cast<std::size_t>(t)]; }
  bool normalized(int t) const { return use->normalized[static_cast<std::size_t>(t)]; }
  // Elements of the frozen weight that operator i, a block's product, multiplies with; 0 where that is trained.
  double frozen_weight(int i) const {
    double elements = 0;
    if (use->weight_products[static_cast<std::size_t>(first + i)])
      for_each_operand(op(i), [&](int t) {
        const Tensor& weight = tensor(t);
        if (weight.role == TensorRole::Parameter && weight.shape.size() >= 2 && !weight.requires_gradient)
          elements += static_cast<double>(weight.elements());
      });
    return elements;
  }
  bool transformer() const { return use->transformer[static_cast<std::size_t>(op(0).unit)]; }
};

// Counts the unit's operators alone, so that a workload of many equal layers is counted once per distinct unit.
UnitView view_of_unit(const OperatorGraph& graph, const TensorUse& use, int unit);

// A number that is equal for units that cost the same: operators, shapes, formats, wiring inside, what leaves. External
// tensors are listed in `externals` by first use. Profiles know units by it.
std::uint64_t structure_hash(const OperatorGraph& graph, const TensorUse& use, int unit, std::vector<int>& externals);

// The same for costs, which depend on what surrounds a unit too: is it a layer's, what the loss reads, who else reads a tensor.
std::uint64_t cost_hash(const OperatorGraph& graph, const TensorUse& use, int unit, std::uint64_t structure);

}  // namespace panpipe
