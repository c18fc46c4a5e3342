// A stage as a rank runs it: segments, each with an autograd graph of its own, and the communicating operators between them.
//
// A pass over it is a list of steps. A step waits for what the step before posted, computes, and posts the next collective; so
// the steps of two passes can be woven, and one computes while what the other posted travels. Where no ranks communicate a pass
// is one step. A full backward computes a segment's input gradients, posts, and does its weight gradients
// while the sum is under way.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/engine/context/context_attention.hpp"
#include "exec/engine/stage/expert_rows.hpp"
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
  using Give = std::function<void(std::vector<at::Tensor>)>;  // called at the end of the last

  // `copies`: null without autocast. References must outlive the stage.
  SegmentedStage(const OperatorGraph& graph, const StageRange& range, const ParameterStore& parameters,
                 const std::vector<bool>& needs_gradient, at::Device device, const PassGroups& groups,
                 WeightCopies* copies = nullptr);

  // Graph tensors that F takes and gives, and whose gradients a backward gives and takes.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }

  // F. `drop`: only the inputs stay alive; R, or else the backward itself, runs it again.
  Steps forward(int microbatch, const CallContext& context, bool drop, Take inputs, Give outputs);
  Steps recompute(int microbatch);
  // As forward() without a backward to come: nothing stays alive.
  Steps evaluate(int microbatch, const CallContext& context, Take inputs, Give outputs);
  // `kind`: B or I. Undefined gradients where none flows.
  Steps backward(ActionKind kind, int microbatch, Take output_gradients, Give input_gradients);
  Steps weight_gradient(int microbatch);  // W

 private:
  struct Part {
    StagePart range;
    std::unique_ptr<Stage> stage;                                               // of a segment
    std::unordered_map<int, std::pair<VocabularyPart, VocabularyLoss>> losses;  // of a loss over the vocabulary, by microbatch
    std::unique_ptr<AttentionForm> form;                                        // of attention over the context
    std::unordered_map<int, ContextAttention> attended;                         // by microbatch
  };
  // A tensor, or one that is on its way.
  struct Value {
    at::Tensor tensor{};
    PassGroup::PostedPtr posted{};
    PassGroup* by = nullptr;                               // who takes it
    std::function<at::Tensor(const at::Tensor&)> after{};  // what is made of what arrives; nothing: itself
  };
  struct ForwardFlow {
    int microbatch;
    CallContext context;
    bool recorded;  // for a backward
    std::unordered_map<int, Value> values;
  };
  struct BackwardFlow {
    int microbatch;
    ActionKind kind;
    std::unordered_map<int, std::vector<Value>> gradients;  // to be added up, in this order
    std::vector<Stage*> weights;  // of segments whose weight gradients come after the next sum is posted
  };
  struct Dropped {
    CallContext context;
    std::vector<at::Tensor> inputs;
  };

  const Operator& operator_of(const Part& part) const;
  static Value exchanged(PassGroup& group, const at::Tensor& value, bool grows_tokens);
  PassGroup* group_of(const Part& part) const;
  bool posts(const Part& part, bool backward) const;
  std::vector<std::pair<std::size_t, std::size_t>> stretches(bool backward) const;
  std::vector<at::Tensor> of_only_part(std::vector<at::Tensor> values) const;
  at::Tensor resolve(Value& value);
  at::Tensor take_value(ForwardFlow& flow, const Part& part, int tensor);
  at::Tensor take_gradient(BackwardFlow& flow, int tensor);
  void run_segment(Part& part, ForwardFlow& flow);
  void run_collective(Part& part, ForwardFlow& flow);
  void run_loss(Part& part, ForwardFlow& flow);
  void run_attention(Part& part, ForwardFlow& flow);
  void return_attention(Part& part, BackwardFlow& flow, const at::Tensor& gradient);
  void run_expert_rows(Part& part, ForwardFlow& flow);
  void return_expert_rows(Part& part, BackwardFlow& flow, const at::Tensor& gradient);
  void return_segment(Part& part, BackwardFlow& flow, bool apart);
  void return_collective(Part& part, BackwardFlow& flow);
  Steps forward_steps(std::shared_ptr<ForwardFlow> flow, Take inputs, Give outputs);

  const OperatorGraph& graph_;
  const PassGroups& groups_;
  std::vector<int> inputs_, outputs_;
  std::vector<Part> parts_;
  std::unordered_map<int, Dropped> dropped_;                 // by microbatch
  std::map<std::pair<int, int>, RowCounts> counts_of_rows_;  // by microbatch and graph tensor: of experts, until the way is over
};

}  // namespace panpipe::exec
