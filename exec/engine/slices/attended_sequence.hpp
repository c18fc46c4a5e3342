// State shared by the slices of one microbatch's sequence on one stage: every attention's keys and values so far, for the forward
// of later slices, and the gradients for them from later slices, for the backward of earlier ones.
//
// A slice's forward appends its keys and values to those of the whole sequence, which are stored once, and attends to all up to
// its own. In the backward the gradient of all of them arrives. The slice's own part continues, together with the part that later
// slices left for it; the part of earlier slices waits for them. Slices run forward from the first, backward from the last.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "costmodel/workload/operator_table.hpp"

namespace panpipe::exec {

class AttentionPartners;

class AttendedSequence {
 public:
  // Masks by slice: the same for all microbatches, created on first use.
  using Masks = std::map<int, at::Tensor>;

  AttendedSequence(int splits, std::shared_ptr<Masks> masks) : splits_(splits), masks_(std::move(masks)) {}
  int splits() const { return splits_; }

  // Replaces the arguments of a causal attention, operator `op` of the graph: those of the slice alone become those of the slice
  // after the preceding ones. Autograd records this if it is on. A repeated forward of the same slice (recompute) gets the same
  // arguments. An operator that takes the queries for the first of the keys' tokens gets a mask.
  void attend(int op, int slice, const OperatorRow& row, torch::jit::Stack& stack);
  // The keys and values alone.
  std::pair<at::Tensor, at::Tensor> append(int op, int slice, const at::Tensor& key, const at::Tensor& value);

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

// The slice of a pass.
struct SequenceSlice {
  int index = 0;
  const std::vector<int>* cut = nullptr;  // see SliceGraph::cut
  std::shared_ptr<AttendedSequence> sequence;
  std::shared_ptr<AttentionPartners> partners{};  // if another rank shares its attention

  // The result of attention `op`, which partners share.
  at::Tensor attend_with_partners(int op, const OperatorRow& row, const torch::jit::Stack& stack) const;
  // The slice's part of an input or buffer of the whole sequence.
  at::Tensor part(int graph_tensor, const at::Tensor& whole) const;
};

}  // namespace panpipe::exec
