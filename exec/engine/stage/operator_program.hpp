// A slice of the operator graph, compiled once to slots and operator handles and called through LibTorch's dispatcher with
// autograd on. Each value is freed at its last use. No Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

struct SequenceSlice;
class Recomputation;
class WeightCopies;

// What varies from call to call besides the values.
struct CallContext {
  std::uint64_t seed = 0;   // of the run
  std::int64_t sample = 0;  // microbatch counted over all steps and replicas: random operators draw the same in every placement
  std::optional<at::ScalarType> autocast{};      // mixed precision of a graph that is in fp32: what its products compute in
  std::shared_ptr<const SequenceSlice> slice{};  // of the sequence, where sequences are cut
  const WeightCopies* copies = nullptr;          // with autocast: what products read in place of weights
  bool evaluates = false;  // no training: nothing is dropped out, and normalizations take the statistics that they have learnt
  Recomputation* recomputation = nullptr;  // of this forward, where results are made again
};

class OperatorProgram {
 public:
  // Operators [first, end) of the graph, which must outlive the program. Throws InputError naming operator and module path
  // when the dispatcher does not know an operator or an argument does not fit its schema.
  OperatorProgram(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs, at::Device device = at::kCPU);

  // Graph tensors that must be given, in the order of run()'s arguments: inputs and activations first, then parameters and
  // buffers. Graph tensors that come back, as asked for.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  // Parameters that autocast would cast at a use, by graph tensor; some more than once.
  const std::vector<int>& lowered_weights() const { return lowered_weights_; }

  // Runs the slice. `values` in the order of inputs(). Autograd records unless a no-grad guard is held by the caller.
  std::vector<at::Tensor> run(std::vector<at::Tensor> values, const CallContext& context) const;

  // Operator `index` of the graph once more, on a stack of its arguments, as run() calls it. Buffers stay as they are.
  void call_again(int index, const CallContext& context, torch::jit::Stack& stack) const;

  // As run(), telling `observer(operator index, begin)` before and after each operator: what profiling hooks into.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void before(int operator_index) = 0;
    virtual void after(int operator_index, const std::vector<c10::IValue>& results) = 0;
  };
  std::vector<at::Tensor> run(std::vector<at::Tensor> values, const CallContext& context, Observer* observer) const;

 private:
  struct Fill {  // argument `position` comes from slot `slot`; inside a list, element `element`
    int position, element, slot;
    int weight = -1;  // graph tensor, where autocast would cast a parameter here
  };
  struct Node {
    c10::OperatorHandle handle;
    int index;                           // in the graph
    std::vector<c10::IValue> arguments;  // constants; filled ones are None
    std::vector<Fill> fills;
    std::vector<int> results;                             // slot per result, -1 = not used
    std::vector<int> dead;                                // slots that are not needed after this node
    bool random;                                          // draws from the generator
    bool surrounded;                                      // stands in a region without gradients or with autocast
    bool attends;                                         // fused attention: reads the slices of the sequence before this one
    bool lowers;                                          // autocast casts its operands
    std::vector<int> writes;                              // arguments that it writes into, as its schema says
    std::vector<int> state;                               // arguments that are buffers which it writes into
    std::vector<std::pair<int, c10::IValue>> evaluation;  // arguments that differ outside training
  };

  Node compile(const Operator& op, int index);
  c10::IValue literal(Node& node, int position, const Argument& argument);
  void call(const Node& node, const CallContext& context, torch::jit::Stack& stack) const;
  void call_as_stated(const Node& node, torch::jit::Stack& stack) const;
  int slot_of(int tensor);

  const OperatorGraph* graph_;
  at::Device device_;
  std::vector<Node> nodes_;
  std::vector<int> slot_of_tensor_;  // -1 = none
  std::vector<int> inputs_, outputs_, input_slots_, output_slots_, lowered_weights_;
  int slots_ = 0;
};

}  // namespace panpipe::exec
