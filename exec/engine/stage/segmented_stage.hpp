// A stage as a rank runs it: segments, each with its own autograd graph, and the communicating operators between them.
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

#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/context/context_attention.hpp"
#include "exec/engine/stage/expert_rows.hpp"
#include "exec/engine/stage/parameter_gate.hpp"
#include "exec/engine/stage/pass_group.hpp"
#include "exec/engine/stage/segments.hpp"
#include "exec/engine/stage/stage.hpp"
#include "exec/engine/stage/vocabulary_loss.hpp"
#include "schedule/action.hpp"

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
    StagePart range;
    std::unique_ptr<Stage> stage;                                               // of a segment
    std::unordered_map<int, std::pair<VocabularyPart, VocabularyLoss>> losses;  // of a loss over the vocabulary, by microbatch
    std::unique_ptr<AttentionForm> form;                                        // of attention over the context
    bool listed = false;                                                        // attention keeps only its operands
    std::unordered_map<int, ContextAttention> attended;                         // by microbatch
    std::unordered_map<int, WeightWork> sinks;                                  // of attention, between I and W, by microbatch
    bool first = false, last = false;                                           // first and last part of its group
  };
  // A tensor, possibly still under way.
  struct Value {
    at::Tensor tensor{};
    PassGroup::PostedPtr posted{};
    PassGroup* by = nullptr;                               // the group that receives it
    std::function<at::Tensor(const at::Tensor&)> after{};  // applied to the received tensor; empty: unchanged
  };
  // The values of written buffers before a dropped pass, by part.
  using Before = std::map<const Part*, std::vector<at::Tensor>>;
  struct ForwardFlow {
    int microbatch;
    CallContext context;
    bool recorded;    // for a backward
    Before before{};  // of a pass that runs again
    std::unordered_map<int, Value> values{};
  };
  struct BackwardFlow {
    int microbatch;
    ActionKind kind;
    std::unordered_map<int, std::vector<Value>> gradients;  // to be summed, in this order
    std::vector<Stage*> weights;                            // segments whose weight gradients follow the next posted sum
  };
  struct Dropped {
    CallContext context;
    std::vector<at::Tensor> inputs;
    Before before{};
  };

  const Operator& operator_of(const Part& part) const;
  OperatorRole role_of(const Part& part) const;
  static Value exchanged(PassGroup& group, const at::Tensor& value, bool grows_tokens);
  void mark_groups();
  void open(const Part& part, bool backward);
  void close(const Part& part, bool backward, bool gradients);
  PassGroup* group_of(const Part& part) const;
  bool posts(const Part& part, bool backward) const;
  std::vector<std::pair<std::size_t, std::size_t>> stretches(bool backward) const;
  std::vector<at::Tensor> of_only_part(std::vector<at::Tensor> values) const;
  at::Tensor resolve(Value& value);
  at::Tensor take_value(ForwardFlow& flow, const Part& part, int tensor);
  at::Tensor take_gradient(BackwardFlow& flow, int tensor);
  std::vector<at::Tensor> called(Part& part, ForwardFlow& flow, std::vector<at::Tensor> values);
  void run_segment(Part& part, ForwardFlow& flow);
  void run_collective(Part& part, ForwardFlow& flow);
  void run_loss(Part& part, ForwardFlow& flow);
  void run_attention(Part& part, ForwardFlow& flow);
  void return_attention(Part& part, BackwardFlow& flow, const at::Tensor& gradient);
  static void return_sinks(Part& part, int microbatch);
  void run_expert_rows(Part& part, ForwardFlow& flow);
  void return_expert_rows(Part& part, BackwardFlow& flow, const at::Tensor& gradient);
  void return_segment(Part& part, BackwardFlow& flow, bool apart);
  void return_collective(Part& part, BackwardFlow& flow);
  Steps forward_steps(std::shared_ptr<ForwardFlow> flow, Take inputs, Give outputs);

  const OperatorGraph& graph_;
  const PassGroups& groups_;
  ParameterGate* gate_;
  std::vector<int> inputs_, outputs_;
  std::vector<Part> parts_;
  std::unordered_map<int, Dropped> dropped_;  // by microbatch
  std::map<std::pair<int, int>, RowCounts>
      counts_of_rows_;  // by microbatch and graph tensor, for experts, until the rows have returned
};

}  // namespace panpipe::exec
