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

struct Roots {
  edge_list edges;
  variable_list gradients;
};

Roots reached(const std::vector<Edge>& roots, const std::vector<at::Tensor>& output_gradients) {
  Roots found;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (!output_gradients[i].defined() || !roots[i].is_valid()) continue;
    found.edges.push_back(roots[i]);
    found.gradients.push_back(output_gradients[i]);
  }
  return found;
}

// Nodes from which one of `targets` is reached. Iterative: graphs are as deep as the model.
std::unordered_set<Node*> nodes_that_reach(const edge_list& roots, const std::unordered_set<Node*>& targets) {
  std::unordered_map<Node*, bool> reaches;
  struct Visit {
    Node* node;
    std::size_t next = 0;
  };
  for (const Edge& root : roots) {
    if (reaches.count(root.function.get())) continue;
    std::vector<Visit> stack{{root.function.get()}};
    reaches[root.function.get()] = targets.count(root.function.get()) > 0;
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.node->next_edges().size()) {
        Node* child = top.node->next_edges()[top.next++].function.get();
        if (child && !reaches.count(child)) {
          reaches[child] = targets.count(child) > 0;
          stack.push_back({child});
        }
        continue;
      }
      Node* done = top.node;
      for (const Edge& edge : done->next_edges())
        if (edge.function && reaches[edge.function.get()]) reaches[done] = true;
      stack.pop_back();
    }
  }
  std::unordered_set<Node*> found;
  for (const auto& [node, reached] : reaches)
    if (reached) found.insert(node);
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

}  // namespace

std::vector<Edge> backward_roots(const std::vector<at::Tensor>& outputs) {
  std::vector<Edge> roots;
  for (const at::Tensor& output : outputs)
    roots.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : Edge());
  return roots;
}

InputGradients input_gradients(const std::vector<Edge>& outputs, const std::vector<at::Tensor>& output_gradients,
                               const std::vector<at::Tensor>& inputs) {
  const Roots roots = reached(outputs, output_gradients);
  InputGradients result;
  result.gradients.resize(inputs.size());

  edge_list wanted;  // input edges first, then (meeting node, input number)
  std::vector<std::size_t> wanted_input;
  std::unordered_set<Node*> targets;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    wanted.push_back(torch::autograd::impl::gradient_edge(inputs[i]));
    wanted_input.push_back(i);
    targets.insert(wanted.back().function.get());
  }
  const std::unordered_set<Node*> reach = nodes_that_reach(roots.edges, targets);

  Roots through;  // roots that lead to an input; the others are weight work as they are
  for (std::size_t i = 0; i < roots.edges.size(); ++i) {
    if (reach.count(roots.edges[i].function.get())) {
      through.edges.push_back(roots.edges[i]);
      through.gradients.push_back(roots.gradients[i]);
    } else {
      result.rest.roots.push_back(roots.edges[i]);
      result.rest.gradients.push_back(roots.gradients[i]);
    }
  }
  if (through.edges.empty()) return result;

  std::vector<Node*> meeting;
  std::vector<NodePtr> held;
  std::unordered_map<Node*, NodePtr> owners;
  for (const Edge& edge : through.edges) owners[edge.function.get()] = edge.function;
  for (Node* node : reach)
    for (const Edge& edge : node->next_edges())
      if (edge.function) owners[edge.function.get()] = edge.function;
  for (Node* node : reach) {
    if (targets.count(node)) continue;
    bool leaves = false;
    for (const Edge& edge : node->next_edges()) leaves |= edge.function && !reach.count(edge.function.get());
    if (leaves) {
      meeting.push_back(node);
      held.push_back(owners[node]);
      for (std::uint32_t number = 0; number < node->num_inputs(); ++number) wanted.emplace_back(owners[node], number);
    } else {
      node->add_post_hook(std::make_unique<ReleaseAfterUse>(node));
    }
  }
  const variable_list found =
      autograd_engine().execute(through.edges, through.gradients, /*keep_graph=*/true, /*create_graph=*/false,
                                /*accumulate_grad=*/false, wanted);
  for (std::size_t i = 0; i < wanted_input.size(); ++i) result.gradients[wanted_input[i]] = found[i];

  // From here on the meeting nodes lead to parameters only.
  std::size_t next = wanted_input.size();
  for (std::size_t m = 0; m < meeting.size(); ++m) {
    NodePtr sink;
    if (must_compute_all(*meeting[m]) && found[next].defined()) {
      sink = make_node<Discard>();
      sink->add_input_metadata(found[next]);  // a normalization's input is shaped like its result
    }
    for (Edge& edge : meeting[m]->next_edges())
      if (edge.function && reach.count(edge.function.get())) edge = sink ? Edge(sink, 0) : Edge();
    for (std::uint32_t number = 0; number < meeting[m]->num_inputs(); ++number, ++next) {
      if (!found[next].defined()) continue;
      result.rest.roots.emplace_back(held[m], number);
      result.rest.gradients.push_back(found[next]);
    }
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
  const Roots roots = reached(outputs, output_gradients);
  if (!roots.edges.empty())
    autograd_engine().execute(roots.edges, roots.gradients, /*keep_graph=*/false, /*create_graph=*/false,
                              /*accumulate_grad=*/true, {});
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& input : inputs) gradients.push_back(input.grad());
  return gradients;
}

}  // namespace panpipe::exec
