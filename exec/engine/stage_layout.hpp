// The operators of each stage, and the tensors that cross between stages. Every rank computes the same layout from the graph and
// the plan before the first step.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/cost/recomputed_operators.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// Tensors that stage `from` makes and stage `to` reads, sent together once per microbatch; their gradients are sent back.
struct Message {
  int from = 0, to = 0;        // stages
  std::vector<int> tensors;    // graph tensors, ascending
  std::vector<bool> gradient;  // per tensor: a gradient is sent back
  // False where forward and backward are cut apart (schedule/walk.hpp: Way): then one message goes forth, another back.
  bool forth = true, back = true;
};

// ZeRO 3: operators of a stage whose parameters are gathered together and whose gradients are reduced together.
struct GatheredRange {
  int first_operator = 0, end_operator = 0;
  int group = 0;  // numbered over all stages of the model; operators outside a stage's blocks are one group
  bool block = false;
};

// An operator of the graph that selective recompute runs again.
struct RecomputedOperator {
  int index = 0;
  RecomputedPart makes{};
};

struct StageRange {
  int first_operator = 0, end_operator = 0;
  std::vector<int> data;                // graph inputs that it reads
  std::vector<int> outputs;             // graph tensors that other stages read, ascending; the loss last in its stage
  std::vector<int> parameters;          // graph tensors (parameters and buffers) that it uses; tied ones by their own index
  std::vector<int> incoming, outgoing;  // into StageLayout::messages
  int chain = 0;                        // its forward path: each path is a copy of the model
  bool has_loss = false;
  // Full recompute of some of its blocks, or of blocks in chunks: operators that are recomputed together, ascending. Without
  // `by_blocks` the stage recomputes as a whole or not at all.
  bool by_blocks = false;
  bool runs_forward = true, runs_backward = true;  // what runs backwards alone computes its forward in R
  std::vector<std::pair<int, int>> again;          // first operator, one past the last
  std::vector<GatheredRange> gathered;             // ZeRO 3: covers all of its operators; else empty
  std::vector<RecomputedOperator> listed;          // selective recompute: operators whose results are dropped, ascending
};

struct StageLayout {
  std::vector<StageRange> stages;
  std::vector<Message> messages;
  std::vector<bool> needs_gradient;  // per graph tensor: a float tensor that depends on a parameter
  int loss_stage = -1;               // of the first forward path
  int microbatches = 1;              // over all forward paths
  int splits = 1;                    // slices per sequence, which pass through the stages one after the other
  int steps_under_way = 1;           // whose passes may be under way at a time: 2 without a flush between steps
  std::vector<int> cut;              // if sequences are cut, by the schedule or over ranks: per graph tensor, as in SliceGraph
  int chains = 1;
  // Of a vocabulary that is cut over the ranks of the pipeline (vocabulary_parts.hpp): the parameters of which each holds as many
  // rows, by root, and the number of these ranks. Empty: stages hold them whole.
  std::map<int, int> vocabulary;
  // By how many ranks of a pipeline the parameter's rows are shared; 1: it is whole.
  int ranks_of_rows(int root) const {
    const auto found = vocabulary.find(root);
    return found == vocabulary.end() ? 1 : found->second;
  }

  // Each path numbers its microbatches from 0, in steps in a row too; the step's samples are assigned to the paths in order.
  int microbatches_of_chain() const { return microbatches / chains; }
  int microbatch_of_step(int stage, int microbatch) const {
    return stages[stage].chain * microbatches_of_chain() + microbatch % microbatches_of_chain();
  }

  // The action with the number of its microbatch in its own step: rows without a flush number those of two steps (step_row.hpp).
  Action in_own_step(Action action) const {
    if (action.microbatch >= 0) action.microbatch %= microbatches_of_chain();
    return action;
  }

  // The number of a slice. Without cut sequences a slice is a whole microbatch.
  int slice_index(const Action& action) const { return action.microbatch * splits + (action.split < 0 ? 0 : action.split); }

  // A unique number per (message, tensor in it, slice, direction), the same on both sides.
  std::uint32_t tag(int message, int tensor, int slice, bool backward) const;
  int most_tensors = 1;
};

// `cut`: see StageLayout::cut. Throws InputError if a stage holds no operator or the graph has no loss.
StageLayout make_stage_layout(const OperatorGraph& graph, const Plan& plan, std::vector<int> cut = {});

// Sets the recomputed parts of stages: under full recompute the blocks, if the scenario limits them; under selective recompute
// the operators. Throws InputError if the model lacks a listed module.
void choose_recomputed(const OperatorGraph& graph, const Plan& plan, const RecomputeScope& scope, StageLayout& layout);

// ZeRO 3: sets the groups of operators whose parameters are gathered together. Stages that recompute as a whole then do so block
// by block, unless the order has its own R actions.
void lay_out_gathers(const OperatorGraph& graph, const Plan& plan, StageLayout& layout);

}  // namespace panpipe::exec
