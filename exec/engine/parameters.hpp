// Parameters and buffers of one rank: seeded, so that a weight has the same values wherever it is placed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/engine/stage/stage.hpp"
#include "exec/engine/stage_layout.hpp"

namespace panpipe::exec {

class PublishedWeights;

// Takes parameters into memory of its own as they are made.
class ParameterPlacement {
 public:
  virtual ~ParameterPlacement() = default;
  // Replaces both by tensors that share memory with others: `value` by one of its shape, `master` by a part of it, flat. False:
  // it does not take this one.
  virtual bool place(int root, at::Tensor& value, at::Tensor& master) = 0;
  // What it keeps of them between passes, and of their gradients.
  virtual std::int64_t parameter_bytes() const = 0;
  virtual std::int64_t gradient_bytes() const = 0;
};

class SeededParameters : public ParameterStore {
 public:
  // Makes what the given stages use. A tied parameter is one tensor per rank; its name is its root's.
  // `masters`: 2-byte parameters are copies of fp32 values that the optimizer updates (mixed precision). `device_of_position`:
  // which of the devices of its pipeline rank this is; its part is cut out of the values that the whole parameter has without
  // them. `weights`: read instead of drawn. `placement`: null where every parameter has memory of its own.
  SeededParameters(const OperatorGraph& graph, const StageLayout& layout, const std::vector<int>& stages, std::uint64_t seed,
                   bool masters = false, at::Device device = at::kCPU, int device_of_position = 0,
                   const PublishedWeights* weights = nullptr, ParameterPlacement* placement = nullptr);

  at::Tensor tensor(int graph_tensor) const override;
  // Trainable leaves by the root's graph tensor.
  const std::map<int, at::Tensor>& trained() const { return trained_; }
  // What the optimizer updates, by root: fp32 values where those were asked for, else the same memory as trained().
  const std::map<int, at::Tensor>& masters() const { return masters_; }
  // Of parameters and of their gradients, as they lie in memory now.
  std::pair<std::int64_t, std::int64_t> bytes() const;
  const std::map<int, at::Tensor>& buffers() const { return buffers_; }

 private:
  const OperatorGraph* graph_;
  const ParameterPlacement* placement_;
  std::int64_t own_bytes_ = 0;  // of parameters with memory of their own
  std::map<int, at::Tensor> trained_, masters_, buffers_;
};

// The parameter that holds the values: itself, or what it is tied to.
int root_of(const OperatorGraph& graph, int tensor);

// Fills by the graph's init text: "zeros", "ones", "normal(S)", "uniform(A,B)", "xavier", "arange", "causal"...; throws
// InputError for another.
at::Tensor initial_value(const Tensor& tensor, std::uint64_t seed);

// A buffer whose values depend on the tensor-parallel rank alone: no part of the model.
bool is_of_the_rank(const Tensor& tensor);

// Reads a parameter or buffer of an exported model from its archive.
at::Tensor stored_value(const OperatorGraph& graph, const Tensor& tensor);

}  // namespace panpipe::exec
