// Parameters and buffers of one rank. Their values are seeded, so a weight is the same wherever it is placed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/workload/operands.hpp"
#include "exec/engine/stage/stage.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

class PublishedWeights;

// Places parameters in the implementation's own memory as they are created.
class ParameterPlacement {
 public:
  virtual ~ParameterPlacement() = default;
  // Replaces both by tensors in shared memory: `value` by one of the same shape, `master` by a flat part of it. Returns false if
  // it does not take this parameter.
  virtual bool place(int root, at::Tensor& value, at::Tensor& master) = 0;
  // Bytes kept between passes for parameters, and for their gradients.
  virtual std::int64_t parameter_bytes() const = 0;
  virtual std::int64_t gradient_bytes() const = 0;
};

class SeededParameters : public ParameterStore {
 public:
  // Creates the parameters of the given stages. A tied parameter is one tensor per rank, with its root's name. `masters`: 2-byte
  // parameters are copies of fp32 values that the optimizer updates (mixed precision). `device_of_position`: this device's index
  // in its pipeline rank; its part is cut from the values that the undivided parameter would have. `weights`: values to read
  // instead of drawing them. `placement`: null if every parameter has its own memory. Throws InputError for initial values that
  // it does not know, and stored ones that are not in their archive.
  SeededParameters(const OperatorGraph& graph, const StageLayout& layout, const std::vector<int>& stages, std::uint64_t seed,
                   bool masters = false, at::Device device = at::kCPU, int device_of_position = 0,
                   const PublishedWeights* weights = nullptr, ParameterPlacement* placement = nullptr);

  at::Tensor tensor(int graph_tensor) const override;
  // Trainable leaves by the root's graph tensor.
  const std::map<int, at::Tensor>& trained() const { return trained_; }
  // The tensors that the optimizer updates, by root: fp32 values if `masters` was set, else the memory of trained().
  const std::map<int, at::Tensor>& masters() const { return masters_; }
  // Bytes of parameters and of their gradients, as now in memory.
  std::pair<std::int64_t, std::int64_t> bytes() const;
  const std::map<int, at::Tensor>& buffers() const { return buffers_; }

 private:
  const OperatorGraph* graph_;
  const ParameterPlacement* placement_;
  std::int64_t own_bytes_ = 0;  // of parameters with their own memory
  std::map<int, at::Tensor> trained_, masters_, buffers_;
};

// The parameter with the values: `tensor` itself, or the one that it is tied to.
int root_of(const OperatorGraph& graph, int tensor);

// Calls visit(root) for each parameter that operators [first, end) read, as often as they do.
template <class Visit>
void for_each_read(const OperatorGraph& graph, int first, int end, Visit visit) {
  for (int op = first; op < end; ++op)
    for_each_operand(graph.operators[static_cast<std::size_t>(op)], [&](int tensor) {
      if (graph.tensors[static_cast<std::size_t>(tensor)].role == TensorRole::Parameter) visit(root_of(graph, tensor));
    });
}

// True for a buffer whose values depend only on the tensor-parallel rank; it is not part of the model.
bool is_of_the_rank(const Tensor& tensor);

}  // namespace panpipe::exec
