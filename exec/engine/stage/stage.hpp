// One stage of a plan on one rank: its program, its parameters, and the tensors alive between a microbatch's passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/engine/stage/operator_program.hpp"
#include "exec/engine/stage/split_backward.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

// Parameters and buffers of one rank, by graph tensor. Tied parameters on one rank are one tensor.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  virtual at::Tensor tensor(int graph_tensor) const = 0;
};

class Stage {
 public:
  // Operators [first, end) of the graph; `outputs` are the tensors for other stages, and the loss. `needs_gradient` states per
  // graph tensor whether a gradient flows back to it. `copies`: with autocast, of the rank's weights; this stage's weights are
  // added.
  Stage(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs, const ParameterStore& parameters,
        const std::vector<bool>& needs_gradient, at::Device device = at::kCPU, WeightCopies* copies = nullptr);

  // Operators whose results forward() does not keep, ascending; those outside this stage are ignored.
  void set_recomputed(std::vector<RecomputedOperator> operators) { recomputed_ = std::move(operators); }

  // Graph tensors that forward() takes (data and activations, no parameters) and returns.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return program_.outputs(); }

  // F. Values in the order of inputs(). The outputs are detached, since they leave the stage. Without a graph (a no-grad guard,
  // or an evaluation, which also changes no buffer) nothing is kept for a backward. `written`: reads and writes these in place of
  // the written buffers, so that the second run of a pass does not count a microbatch again in running statistics.
  std::vector<at::Tensor> forward(int microbatch, const std::vector<at::Tensor>& values, const CallContext& context,
                                  const std::vector<at::Tensor>& written = {});
  // Copies of the buffers that the program writes.
  std::vector<at::Tensor> written_buffers() const;
  // The start of the backward of each output.
  const std::vector<torch::autograd::Edge>& roots(int microbatch) { return live(microbatch).roots; }
  // B, I, W. Gradients in the order of outputs(), undefined if none flows; B and I return those of inputs().
  std::vector<at::Tensor> backward(int microbatch, const std::vector<at::Tensor>& output_gradients);
  std::vector<at::Tensor> input_gradient(int microbatch, const std::vector<at::Tensor>& output_gradients);
  void weight_gradient(int microbatch);

  void clear() { live_.clear(); }
  const OperatorProgram& program() const { return program_; }

 private:
  struct Live {
    std::vector<at::Tensor> inputs{};            // leaves
    std::vector<torch::autograd::Edge> roots{};  // one per output
    std::optional<WeightWork> rest{};            // between I and W
    // Until I or B: what the slices of a sequence attend to lives as long as one of them.
    std::shared_ptr<const SequenceSlice> slice{};
  };
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, CallContext context, const std::vector<at::Tensor>& written);
  Live& live(int microbatch);

  OperatorProgram program_;
  const WeightCopies* copies_;
  const OperatorGraph* graph_;
  std::vector<RecomputedOperator> recomputed_;
  std::vector<int> inputs_;
  std::vector<at::ScalarType> output_types_;  // in the graph, one per output
  std::vector<bool> gradient_inputs_;         // one per input
  std::vector<at::Tensor> kept_;              // parameters and buffers, in the program's order
  std::vector<std::size_t> written_;          // those that the program writes to
  std::unordered_map<int, Live> live_;
};

}  // namespace panpipe::exec
