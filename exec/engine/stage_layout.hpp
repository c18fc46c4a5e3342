// What every rank must know before the first step: which operators each stage runs and which tensors cross between stages.
// Computed alike on every rank from the graph and the plan.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// Tensors that stage `from` makes and stage `to` reads, sent together once per microbatch; their gradients travel back.
struct Message {
  int from = 0, to = 0;        // stages
  std::vector<int> tensors;    // graph tensors, ascending
  std::vector<bool> gradient;  // per tensor: does one flow back?
};

struct StageRange {
  int first_operator = 0, end_operator = 0;
  std::vector<int> data;                // graph inputs it reads
  std::vector<int> outputs;             // graph tensors that other stages read, ascending; the loss last in its stage
  std::vector<int> parameters;          // graph tensors (parameters and buffers) it uses; tied ones by their own index
  std::vector<int> incoming, outgoing;  // into StageLayout::messages
  int chain = 0;                        // forward path that it is on: each path is a copy of the model
  bool has_loss = false;
  // Full recompute of some of its blocks, or of blocks in chunks: operators that are made again together, ascending. Without
  // `by_blocks` the stage recomputes as a whole, or not.
  bool by_blocks = false;
  std::vector<std::pair<int, int>> again;  // first operator, one past the last
};

struct StageLayout {
  std::vector<StageRange> stages;
  std::vector<Message> messages;
  std::vector<bool> needs_gradient;  // per graph tensor: a float tensor that depends on a parameter
  int loss_stage = -1;               // of the first forward path
  int microbatches = 1;              // of all forward paths together
  int splits = 1;                    // slices of a sequence, which pass through the stages one after the other
  std::vector<int> cut;  // where sequences are cut, by the schedule or over ranks: per graph tensor, as SliceGraph says
  int chains = 1;

  // Each path numbers its share of the microbatches from 0; the step's samples are dealt to the paths one after the other.
  int microbatch_of_step(int stage, int microbatch) const {
    return stages[static_cast<std::size_t>(stage)].chain * (microbatches / chains) + microbatch;
  }

  // What passes through the stages at a time: a slice, which is a whole microbatch where sequences are not cut.
  int slice_index(const Action& action) const { return action.microbatch * splits + (action.split < 0 ? 0 : action.split); }

  // One number per (message, tensor of it, slice, direction), the same on both sides.
  std::uint32_t tag(int message, int tensor, int slice, bool backward) const;
  int most_tensors = 1;
};

// `cut`: of the graph of a part of the sequence, where the schedule or the ranks cut sequences. Throws InputError when a stage
// holds no operator or the graph has no loss.
StageLayout make_stage_layout(const OperatorGraph& graph, const Plan& plan, std::vector<int> cut = {});

// Fills in which blocks the stages under full recompute make again, where the scenario says more than the mode.
void choose_recomputed_blocks(const OperatorGraph& graph, const Plan& plan, const RecomputeScope& scope, StageLayout& layout);

}  // namespace panpipe::exec
