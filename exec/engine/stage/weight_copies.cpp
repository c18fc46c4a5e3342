#include "exec/engine/stage/weight_copies.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

#include "exec/engine/stage/autograd_node.hpp"

namespace panpipe::exec {
namespace {

struct GradientOfWeight : torch::autograd::Node {
  explicit GradientOfWeight(at::ScalarType of) : type(of) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& arrived) override {
    return {arrived[0].defined() ? arrived[0].to(type) : at::Tensor()};
  }
  at::ScalarType type;
};

}  // namespace

at::Tensor in_place_of(const at::Tensor& weight, const at::Tensor& values) {
  at::Tensor same = values.variable_data();
  if (!weight.requires_grad() || !at::GradMode::is_enabled()) return same;
  const auto node = make_node<GradientOfWeight>(weight.scalar_type());
  node->set_next_edges({torch::autograd::impl::gradient_edge(weight)});
  torch::autograd::set_history(same, node);
  return same;
}

void WeightCopies::add(const at::Tensor& weight) {
  if (weight.scalar_type() != at::kFloat || !weight.is_leaf() || weight.is_view()) return;
  Pair& pair = pairs_[weight.unsafeGetTensorImpl()];
  if (!pair.copy.defined()) pair = {weight, weight.detach().to(dtype_)};
}

void WeightCopies::refresh() {
  const at::NoGradGuard no_graph;
  std::vector<at::Tensor> copies, weights;
  for (const auto& [weight, pair] : pairs_) {
    copies.push_back(pair.copy);
    weights.push_back(pair.weight.detach());
  }
  if (!copies.empty()) at::_foreach_copy_(copies, weights);
}

at::Tensor WeightCopies::stand_in(const at::Tensor& weight) const {
  const auto found = pairs_.find(weight.unsafeGetTensorImpl());
  return found == pairs_.end() ? weight : in_place_of(weight, found->second.copy);
}

}  // namespace panpipe::exec
