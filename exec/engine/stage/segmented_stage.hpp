// A stage as a rank runs it: a list of operators (stage_operator.hpp), which are segments, each with its own autograd graph, and
// the communicating operators between them.
//
// A pass is a list of steps. Each step waits for the collective posted by the step before it, computes, and posts the next one.
// The steps of two passes can therefore be woven: one computes while the other's collective is under way. Without communicating
// ranks a pass is one step. A full backward computes a segment's input gradients, posts, and computes its weight gradients while
// the sum is under way.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/engine/stage/parameter_gate.hpp"
#include "exec/engine/stage/stage_operator.hpp"

namespace panpipe::exec {

// The first step takes what the pass reads out of `values`; the last one leaves there what it made.
using Values = std::vector<at::Tensor>;
using PassStep = std::function<void(Values& values)>;
using Steps = std::vector<PassStep>;

class SegmentedStage {
 public:
  // `copies`: nullptr without autocast; `gate`: nullptr if parameters are always whole. References must outlive the stage.
  SegmentedStage(const OperatorGraph& graph, const StageRange& range, const ParameterStore& parameters,
                 const std::vector<bool>& needs_gradient, at::Device device, const PassGroups& groups,
                 WeightCopies* copies = nullptr, ParameterGate* gate = nullptr);

  // Graph tensors that F takes and returns; a backward returns and takes their gradients.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }

  // F, from a flow without values. One that is not recorded keeps only its inputs, and R, or otherwise the backward itself, runs
  // it again; an evaluation keeps nothing.
  Steps forward(ForwardFlow start);
  Steps recompute(int microbatch);
  // Drops what a dropped forward kept, where another stage runs the backward.
  void forget(int microbatch);
  // `kind`: B or I. Gradients are undefined if none flows.
  Steps backward(ActionKind kind, int microbatch);
  Steps weight_gradient(int microbatch);  // W
  void clear();                           // forgets all microbatches

 private:
  struct Part {
    StageOperatorPtr op;
    bool first = false, last = false;  // of those that need their group of parameters whole
  };

  void mark_groups();
  void open(const Part& part, bool backward);
  void close(const Part& part, bool backward, bool gradients);
  Steps in_steps(bool backward, PassStep begin, const std::function<void(std::size_t, std::size_t)>& run, PassStep end) const;

  ParameterGate* gate_;
  std::vector<int> inputs_, outputs_;
  std::map<std::pair<int, int>, RowCounts> row_counts_;  // see StageSite
  std::vector<Part> parts_;
  std::unordered_map<int, ForwardFlow> dropped_;  // their inputs, by microbatch
};

}  // namespace panpipe::exec
