// A range of the operator graph, compiled once to slots and operator handles and called through LibTorch's dispatcher with
// autograd. Each value is freed after its last use. No Python is involved.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/workload/operator_table.hpp"

namespace panpipe::exec {

struct SequenceSlice;
class Recomputation;
class WeightCopies;
class WeightVersions;

// Is called around each operator of a program; used by profiling.
class OperatorObserver {
 public:
  virtual ~OperatorObserver() = default;
  virtual void before(int operator_index) = 0;
  virtual void after(int operator_index, const std::vector<c10::IValue>& results) = 0;
};

// Parameters of a call in addition to the values.
struct CallContext {
  std::uint64_t seed = 0;  // of the run
  std::int64_t sample =
      0;  // number of the microbatch over all steps and replicas, so that random operators draw the same in every placement
  std::optional<at::ScalarType> autocast{};            // for mixed precision of an fp32 graph: the type of its products
  std::shared_ptr<const SequenceSlice> slice{};        // of the sequence, if sequences are cut
  const std::vector<std::int64_t>* samples = nullptr;  // tokens of the samples that share a sequence; null, none: one sample
  const WeightCopies* copies = nullptr;                // with autocast: copies that products read instead of weights
  bool evaluates = false;                  // no training: dropout is off, and normalizations use their running statistics
  int context_member = 0;                  // where ranks exchange heads: this rank has that part of all heads
  Recomputation* recomputation = nullptr;  // of this forward, if results are recomputed
  bool again = false;                      // a forward that runs again for its backward: none of its results is left out
  // Called before an operator that reads values of a GPU on the host: returns when the GPU has computed them. The operator itself
  // would wait without end if the GPU hangs. nullptr: it waits.
  const std::function<void()>* before_reading = nullptr;
  const WeightVersions* versions = nullptr;  // without a flush: the weights are read in this version
  std::int64_t version = 0;
  OperatorObserver* observer = nullptr;
};

class OperatorProgram {
 public:
  // Compiles operators [first, end) of the graph, which must outlive the program. Throws InputError with operator and module path
  // if the dispatcher does not know an operator or an argument does not fit its schema.
  OperatorProgram(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs, at::Device device = at::kCPU);

  // Graph tensors to pass to run(), in order: inputs and activations first, then parameters and buffers. outputs(): graph tensors
  // that it returns, as requested.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  // Parameters that autocast would cast at a use, by graph tensor; may contain duplicates.
  const std::vector<int>& lowered_weights() const { return lowered_weights_; }

  // Runs the program. `values` in the order of inputs(). Autograd records unless the caller holds a no-grad guard.
  std::vector<at::Tensor> run(std::vector<at::Tensor> values, const CallContext& context) const;

  // Calls operator `index` of the graph again, on a stack of its arguments, like run(). Buffers are not changed.
  void call_again(int index, const CallContext& context, torch::jit::Stack& stack) const;

 private:
  struct Fill {  // argument `position` comes from slot `slot`; inside a list, it is element `element`
    int position, element, slot;
    int weight = -1;  // graph tensor, if autocast would cast a parameter here
  };
  using Slots = std::vector<c10::IValue>;
  struct Node {
    c10::OperatorHandle handle;
    int index;                           // in the graph
    std::vector<c10::IValue> arguments;  // constants; arguments from slots are None
    std::vector<Fill> fills;
    std::vector<int> results;  // slot per result, -1 = not used
    std::vector<int> dead;     // slots not needed after this node
    bool random;               // draws from the generator
    bool surrounded;           // is in a region without gradients or with autocast
    const OperatorRow* row;
    bool lowers;                                          // autocast casts its operands
    bool reads = false;                                   // reads its operands on the host
    std::vector<int> writes;                              // arguments that it writes to, according to its schema
    std::vector<int> state;                               // arguments that are buffers it writes to
    std::vector<std::pair<int, c10::IValue>> evaluation;  // arguments that differ outside training
  };

  Node compile(const Operator& op, int index);
  c10::IValue literal(Node& node, int position, const Argument& argument);
  void fill_stack(const Node& node, const Slots& slots, const CallContext& context, torch::jit::Stack& stack) const;
  void run(const Node& node, const CallContext& context, torch::jit::Stack& stack) const;
  void call(const Node& node, const CallContext& context, torch::jit::Stack& stack) const;
  void call_for_samples(const Node& node, CallContext context, torch::jit::Stack& stack) const;
  int slot_of(int tensor);

  const OperatorGraph* graph_;
  at::Device device_;
  std::vector<Node> nodes_;
  std::vector<int> slot_of_tensor_;  // -1 = none
  std::vector<int> inputs_, outputs_, input_slots_, output_slots_, lowered_weights_;
  int slots_ = 0;
};

}  // namespace panpipe::exec
