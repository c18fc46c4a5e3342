// Results that a forward does not keep and the backward makes again: `recompute: selective`, lists of operators and of modules.
//
// Autograd asks for each tensor that it saves. A tensor that a listed operator of the same block made is let go; the backward's
// first question for one runs the block's listed operators again, in their order, with the same random numbers, and fills in all
// that were let go. Kept are tensors that others made, and what the listed operators read of these. Of attention the inside is
// made again, each for itself: its result stays.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/stage/activation_offload.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// Of one forward of a program. What it let go lives on with the autograd graph.
class Recomputation {
 public:
  // Calls an operator on a stack of its arguments, as the forward did; must outlive the autograd graph.
  using CallAgain = std::function<void(int op, torch::jit::Stack&)>;

  // `listed`: ascending.
  Recomputation(const OperatorGraph& graph, const std::vector<RecomputedOperator>& listed, CallAgain call);
  ~Recomputation();
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

  // Around one call.
  class Operator {
   public:
    // `stack`: its arguments. `written`: those that it writes into. `lowered`: what autocast casts its operands to; one that was
    // let go is cast here, so that its cast can go too.
    Operator(Recomputation& forward, int op, const std::vector<int>& written, std::optional<at::ScalarType> lowered,
             torch::jit::Stack& stack);
    ~Operator();
    Operator(const Operator&) = delete;
    Operator& operator=(const Operator&) = delete;
    void done(const torch::jit::Stack& results);

   private:
    struct Watched;
    std::unique_ptr<Watched> watched_;
  };

 private:
  struct Forward;
  std::unique_ptr<Forward> forward_;
};

}  // namespace panpipe::exec
