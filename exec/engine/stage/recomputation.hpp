// Results that a forward drops and the backward recomputes: `recompute: selective`, lists of operators and of modules.
//
// Autograd requests storage for each tensor that it saves. A tensor made by a listed operator of the same block is dropped. The
// backward's first use of one runs the block's listed operators again, in order and with the same random numbers, and restores
// all dropped tensors. Tensors made by other operators are kept, including the listed operators' inputs. For attention only the
// inside is recomputed, separately for each; its result is kept.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// The recomputation for one forward of a program. Its dropped tensors live on with the autograd graph.
class Recomputation {
 public:
  // Calls an operator on a stack of its arguments, like the forward; must outlive the autograd graph.
  using CallAgain = std::function<void(int op, torch::jit::Stack&)>;

  // `listed`: ascending.
  Recomputation(const OperatorGraph& graph, const std::vector<RecomputedOperator>& listed, CallAgain call);
  ~Recomputation();
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

  // Surrounds `call` of an operator, which turns the stack of its arguments into its results. `written`: the arguments that it
  // writes to. `lowered`: the type to which autocast casts its operands; a dropped operand is cast here, so that its cast can be
  // dropped, too.
  void around(int op, const std::vector<int>& written, std::optional<at::ScalarType> lowered, torch::jit::Stack& stack,
              const std::function<void()>& call);

 private:
  struct Forward;
  struct Watched;
  std::unique_ptr<Forward> forward_;
};

}  // namespace panpipe::exec
