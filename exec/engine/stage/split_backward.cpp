#include "exec/engine/stage/split_backward.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "exec/engine/stage/activation_offload.hpp"

namespace panpipe::exec {
namespace {

using torch::autograd::Edge;
using edge_list = std::vector<torch::autograd::Edge>;
using torch::autograd::Node;
using torch::autograd::variable_list;

WeightWork reached(const std::vector<Edge>& roots, const std::vector<at::Tensor>& output_gradients) {
  WeightWork found;
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (output_gradients[i].defined() && roots[i].is_valid()) found.add(roots[i], output_gradients[i]);
  return found;
}

// Nodes from which one of `targets` is reached, with their owners: from the roots down to see who calls whom, and back up.
std::unordered_map<Node*, NodePtr> nodes_that_reach(const edge_list& roots, const std::unordered_set<Node*>& targets) {
  std::unordered_map<Node*, std::vector<NodePtr>> callers;
  std::vector<NodePtr> next;
  std::unordered_map<Node*, NodePtr> found;
  const auto come_to = [&](const NodePtr& node) {
    if (!callers.try_emplace(node.get()).second) return;
    next.push_back(node);
    if (targets.count(node.get())) found.emplace(node.get(), node);
  };
  for (const Edge& root : roots) come_to(root.function);
  while (!next.empty()) {
    const NodePtr node = next.back();
    next.pop_back();
    for (const Edge& edge : node->next_edges()) {
      if (!edge.function) continue;
      come_to(edge.function);
      callers[edge.function.get()].push_back(node);
    }
  }
  for (const auto& [target, owner] : found) next.push_back(owner);
  while (!next.empty()) {
    const NodePtr node = next.back();
    next.pop_back();
    for (const NodePtr& caller : callers[node.get()])
      if (found.emplace(caller.get(), caller).second) next.push_back(caller);
  }
  return found;
}

// Frees what a node saved as soon as its part is done; the engine itself keeps everything when the graph is kept.
struct ReleaseAfterUse : torch::autograd::FunctionPostHook {
  Node* node;
  explicit ReleaseAfterUse(Node* owner) : node(owner) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    node->release_variables();
    return outputs;
  }
};

// Takes a gradient that nobody wants.
struct Discard : torch::autograd::Node {
  variable_list apply(variable_list&&) override { return {}; }
};

// LibTorch 2.11's kernel for channels-last tensors writes the input's gradient whether it was asked for or not, and ends the
// process when it was not: such a node computes it again in W.
bool must_compute_all(const Node& node) { return node.name().find("NativeGroupNormBackward") != std::string::npos; }

// Inputs' edges that I asks gradients for, and behind them those of the nodes where paths to inputs and to parameters part, of
// which W goes on. What lies between is freed as it is done.
struct WantedEdges {
  edge_list edges;
  std::vector<NodePtr> meeting;

  void add_meeting(const std::unordered_map<Node*, NodePtr>& reach, const std::unordered_set<Node*>& targets) {
    for (const auto& [node, owner] : reach) {
      if (targets.count(node)) continue;
      bool leaves = false;
      for (const Edge& edge : node->next_edges()) leaves |= edge.function && !reach.count(edge.function.get());
      if (!leaves) {
        node->add_post_hook(std::make_unique<ReleaseAfterUse>(node));
        continue;
      }
      meeting.push_back(owner);
      for (std::uint32_t number = 0; number < node->num_inputs(); ++number) edges.emplace_back(owner, number);
    }
  }
};

}  // namespace

std::vector<Edge> backward_roots(const std::vector<at::Tensor>& outputs) {
  std::vector<Edge> roots;
  for (const at::Tensor& output : outputs)
    roots.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : Edge());
  return roots;
}

InputGradients input_gradients(const std::vector<Edge>& outputs, const std::vector<at::Tensor>& output_gradients,
                               const std::vector<at::Tensor>& inputs) {
  const WeightWork work = reached(outputs, output_gradients);
  InputGradients result;
  result.gradients.resize(inputs.size());

  WantedEdges wanted;
  std::vector<std::size_t> wanted_input;
  std::unordered_set<Node*> targets;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    wanted.edges.push_back(torch::autograd::impl::gradient_edge(inputs[i]));
    wanted_input.push_back(i);
    targets.insert(wanted.edges.back().function.get());
  }
  const std::unordered_map<Node*, NodePtr> reach = nodes_that_reach(work.roots, targets);

  WeightWork through;  // roots that lead to an input; the others are weight work as they are
  for (std::size_t i = 0; i < work.roots.size(); ++i)
    (reach.count(work.roots[i].function.get()) ? through : result.rest).add(work.roots[i], work.gradients[i]);
  if (through.roots.empty()) return result;

  wanted.add_meeting(reach, targets);
  const variable_list found =
      autograd_engine().execute(through.roots, through.gradients, /*keep_graph=*/true, /*create_graph=*/false,
                                /*accumulate_grad=*/false, wanted.edges);
  for (std::size_t i = 0; i < wanted_input.size(); ++i) result.gradients[wanted_input[i]] = found[i];

  // From here on the meeting nodes lead to parameters only.
  std::size_t next = wanted_input.size();
  for (const NodePtr& node : wanted.meeting) {
    NodePtr sink;
    if (must_compute_all(*node) && found[next].defined()) {
      sink = make_node<Discard>();
      sink->add_input_metadata(found[next]);  // a normalization's input is shaped like its result
    }
    for (Edge& edge : node->next_edges())
      if (edge.function && reach.count(edge.function.get())) edge = sink ? Edge(sink, 0) : Edge();
    for (std::uint32_t number = 0; number < node->num_inputs(); ++number, ++next)
      if (found[next].defined()) result.rest.add({node, number}, found[next]);
  }
  return result;
}

void weight_gradients(WeightWork work) {
  if (work.roots.empty()) return;
  autograd_engine().execute(work.roots, work.gradients, /*keep_graph=*/false, /*create_graph=*/false,
                            /*accumulate_grad=*/true, {});
}

std::vector<at::Tensor> full_backward(const std::vector<Edge>& outputs, const std::vector<at::Tensor>& output_gradients,
                                      const std::vector<at::Tensor>& inputs) {
  weight_gradients(reached(outputs, output_gradients));
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

}  // namespace panpipe::exec
