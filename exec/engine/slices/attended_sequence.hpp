// What the slices of one microbatch's sequence share on one stage: every attention's keys and values so far, for the forward of
// later slices; and the gradients that later slices gave them, for the backward of earlier ones.
//
// A slice's forward appends its keys and values to those of the whole sequence, which are stored once, and attends to all up to
// its own. In the backward the gradient of all of them arrives: the slice's own part goes on, together with what later slices
// left for it; the part of earlier slices waits for them. Slices run forward from the first, backward from the last.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace panpipe::exec {

class AttendedSequence {
 public:
  // Masks by slice: the same for all microbatches, made when first wanted.
  using Masks = std::map<int, at::Tensor>;

  AttendedSequence(int splits, std::shared_ptr<Masks> masks) : splits_(splits), masks_(std::move(masks)) {}
  int splits() const { return splits_; }

  // Changes the arguments of a causal aten::scaled_dot_product_attention, operator `op` of the graph, from those of the slice
  // alone to those of the slice behind the ones before it. Recorded by autograd where that is on. A second forward of the same
  // slice (recompute) finds the same.
  void attend(int op, int slice, torch::jit::Stack& stack);

 private:
  struct Whole;  // keys or values
  struct Attention {
    std::shared_ptr<Whole> keys, values;
  };
  struct AppendBackward;
  at::Tensor append(std::shared_ptr<Whole>& whole, const at::Tensor& own, int slice) const;

  int splits_;
  std::map<int, Attention> attentions_;  // by operator
  std::shared_ptr<Masks> masks_;
};

// The slice that a pass is of.
struct SequenceSlice {
  int index = 0;
  const std::vector<int>* cut = nullptr;  // as SliceGraph::cut
  std::shared_ptr<AttendedSequence> sequence;

  // Of an input or buffer of the whole sequence.
  at::Tensor part(int graph_tensor, const at::Tensor& whole) const;
};

}  // namespace panpipe::exec
