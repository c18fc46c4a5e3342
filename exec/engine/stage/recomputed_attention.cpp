#include "exec/engine/stage/recomputed_attention.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <array>
#include <utility>

#include "exec/engine/stage/activation_offload.hpp"
#include "exec/engine/stage/autograd_node.hpp"

namespace panpipe::exec {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

constexpr std::size_t kOperands = 3;  // query, key, value: the first arguments

struct RecomputedAttention : Node {
  std::function<void(torch::jit::Stack&)> attention;
  torch::jit::Stack others;  // the arguments; operands are left out
  std::array<torch::autograd::SavedVariable, kOperands> saved;

  variable_list apply(variable_list&& arrived) override {
    variable_list result(kOperands);
    if (!arrived[0].defined()) return result;
    torch::jit::Stack stack = others;
    torch::autograd::edge_list wanted;
    std::vector<std::size_t> wanted_operand;
    at::Tensor output;
    {
      const at::AutoGradMode record(true);
      for (std::size_t i = 0; i < kOperands; ++i) {
        at::Tensor leaf = saved[i].unpack().detach();
        if (task_should_compute_output(i)) {
          leaf.requires_grad_(true);
          wanted.push_back(torch::autograd::impl::gradient_edge(leaf));
          wanted_operand.push_back(i);
        }
        stack[i] = leaf;
      }
      attention(stack);
      output = stack[0].toTensor();
    }
    stack.clear();
    if (wanted.empty()) return result;
    const torch::autograd::edge_list roots = {torch::autograd::impl::gradient_edge(output)};
    output.reset();
    const variable_list found = autograd_engine().execute(roots, {arrived[0]}, /*keep_graph=*/false, /*create_graph=*/false,
                                                          /*accumulate_grad=*/false, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) result[wanted_operand[i]] = found[i];
    return result;
  }
  void release_variables() override {
    for (auto& variable : saved) variable.reset_data();
  }
};

}  // namespace

void recomputed_attention(std::function<void(torch::jit::Stack&)> attention, torch::jit::Stack& stack) {
  variable_list operands;
  bool records = at::GradMode::is_enabled(), wanted = false;
  for (std::size_t i = 0; i < kOperands; ++i) {
    operands.push_back(stack[i].toTensor());
    wanted |= operands.back().requires_grad();
  }
  if (!records || !wanted) return attention(stack);
  const auto node = make_node<RecomputedAttention>();
  node->set_next_edges(torch::autograd::collect_next_edges(operands));
  node->others = stack;
  for (std::size_t i = 0; i < kOperands; ++i) {
    node->others[i] = c10::IValue();
    node->saved[i] = torch::autograd::SavedVariable(operands[i], /*is_output=*/false);
  }
  node->attention = attention;
  {
    const at::NoGradGuard no_graph;
    attention(stack);
  }
  torch::autograd::set_history(stack[0].toTensor(), node);
}

}  // namespace panpipe::exec
