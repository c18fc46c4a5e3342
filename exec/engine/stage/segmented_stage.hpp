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

using Steps = std::vector<std::function<void()>>;

class SegmentedStage {
 public:
  using Take = std::function<std::vector<at::Tensor>()>;      // called by the first step
  using Give = std::function<void(std::vector<at::Tensor>)>;  // called at the end of the last step

  // `copies`: nullptr without autocast; `gate`: nullptr if parameters are always whole. References must outlive the stage.
  SegmentedStage(const OperatorGraph& graph, const StageRange& range, const ParameterStore& parameters,
                 const std::vector<bool>& needs_gradient, at::Device device, const PassGroups& groups,
                 WeightCopies* copies = nullptr, ParameterGate* gate = nullptr);

  // Graph tensors that F takes and returns; a backward returns and takes their gradients.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }

  // F. `drop`: keeps only the inputs; R, or otherwise the backward itself, runs it again.
  Steps forward(int microbatch, const CallContext& context, bool drop, Take inputs, Give outputs);
  Steps recompute(int microbatch);
  // Drops what a dropped forward kept, where another stage runs the backward.
  void forget(int microbatch);
  // Like forward() without a later backward: nothing is kept.
  Steps evaluate(int microbatch, const CallContext& context, Take inputs, Give outputs);
  // `kind`: B or I. Gradients are undefined if none flows.
  Steps backward(ActionKind kind, int microbatch, Take output_gradients, Give input_gradients);
  Steps weight_gradient(int microbatch);  // W
  void clear();                           // forgets all microbatches

 private:
  struct Part {
    StageOperatorPtr op;
    bool first = false, last = false;  // of those that need their group of parameters whole
  };
  struct Dropped {
    CallContext context;
    std::vector<at::Tensor> inputs;
  };

  void mark_groups();
  void open(const Part& part, bool backward);
  void close(const Part& part, bool backward, bool gradients);
  Steps in_steps(bool backward, std::function<void()> begin, const std::function<void(std::size_t, std::size_t)>& run,
                 std::function<void()> end) const;
  Steps forward_steps(ForwardFlow start, Take inputs, Give outputs);

  ParameterGate* gate_;
  std::vector<int> inputs_, outputs_;
  std::map<std::pair<int, int>, RowCounts> row_counts_;  // see StageSite
  std::vector<Part> parts_;
  std::unordered_map<int, Dropped> dropped_;  // by microbatch
};

}  // namespace panpipe::exec
