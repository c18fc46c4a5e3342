// What every rank must know before the first step: which operators each stage runs and which tensors cross between stages.
// Computed alike on every rank from the graph and the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/plan/plan.hpp"
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
  std::vector<int> incoming, outgoing;  // into Layout::messages
};

struct Layout {
  std::vector<StageRange> stages;
  std::vector<Message> messages;
  std::vector<bool> needs_gradient;  // per graph tensor: a float tensor that depends on a parameter
  int loss_stage = -1;
  int microbatches = 1;

  // One number per (message, tensor of it, microbatch, direction), the same on both sides.
  std::uint32_t tag(int message, int tensor, int microbatch, bool backward) const;
  int most_tensors = 1;
};

// Throws InputError when a stage holds no operator or the graph has no loss.
Layout make_layout(const OperatorGraph& graph, const Plan& plan);

}  // namespace panpipe::exec
