// Nodes and edges of LibTorch's backward graph. LibTorch 2.11 owns nodes by std::shared_ptr. 2.15 uses c10::intrusive_ptr, which
// needs the complete type and no deleter against deep recursion.
#pragma once

#include <memory>
#include <utility>

#if __has_include(<torch/csrc/autograd/node.h>)
#include <torch/csrc/autograd/node.h>
#define PANPIPE_INTRUSIVE_NODES
#else
#include <torch/csrc/Export.h>
#include <torch/csrc/autograd/edge.h>
namespace torch::autograd {
TORCH_API void deleteNode(Node* function);  // as in torch/csrc/autograd/function.h, which most users of edges do not need
}
#endif

namespace panpipe::exec {

using NodePtr = decltype(torch::autograd::Edge::function);

// Creates a node with the same kind of ownership as edges use.
template <class OwnNode, class... Arguments>
auto make_node(Arguments&&... arguments) {
#ifdef PANPIPE_INTRUSIVE_NODES
  return c10::make_intrusive<OwnNode>(std::forward<Arguments>(arguments)...);
#else
  return std::shared_ptr<OwnNode>(new OwnNode(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
#endif
}

}  // namespace panpipe::exec
