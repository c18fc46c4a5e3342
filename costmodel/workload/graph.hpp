// The operator graph: a training step's forward pass for one microbatch on one tensor-parallel rank, in ATen's terms. It is
// complete enough to execute: every operator names a dispatcher schema and all its arguments. The cost model and the executor
// read the same graph. Immutable once built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/precision.hpp"
#include "base/quantity.hpp"
#include "costmodel/degrees/degrees.hpp"

namespace panpipe {

using Shape = std::vector<std::int64_t>;

// The position of a parameter's or buffer's values in the archive from which the graph was read.
struct StoredValues {
  std::int64_t offset = 0;  // of the entry's first byte in the file
  std::int64_t bytes = 0;   // of the entry, which several tensors may share
  std::int64_t first_element = 0;
  Shape strides;  // in elements
};

enum class TensorRole : std::uint8_t {
  Input,       // comes from the data (token ids, pixels, labels)
  Parameter,   // trained
  Buffer,      // state that is not trained (a causal mask, running statistics)
  Activation,  // made by an operator
};

// Types whose values can have a gradient; indices have none.
constexpr bool differentiable(DType type) {
  return type == DType::Float32 || type == DType::Float64 || type == DType::Float16 || type == DType::BFloat16 ||
         type == DType::Complex64;
}

struct Tensor {
  std::string name = {};  // "transformer.h.3.attn.c_attn.weight"; parameters keep the framework's own names
  TensorRole role{};
  DType dtype{};
  Shape shape = {};               // of this tensor-parallel rank's shard
  int producer = -1;              // operator index; -1 for inputs, parameters, buffers
  bool requires_gradient = true;  // differentiable, and a trained parameter or made from one
  int tied_to = -1;       // for a parameter that shares its values with an earlier one (tied embedding): that tensor's index
  Shape full_shape = {};  // parameters: the unsharded shape (equals `shape` if not sharded)
  std::string init = {};  // parameters and buffers: "normal(0.02)", "zeros", "ones" ...: the executor's initial values
                          // (docs/models/workloads.md)
  // The dimension along which a parameter is divided over the tensor-parallel ranks; -1: every rank holds the whole. A fused
  // matrix (query, key, value) is divided inside each of its matrices; `shard_replicas` neighbouring ranks hold the same shard.
  int shard_dimension = -1;
  int fused_matrices = 1;
  Shape fused_rows = {};  // this rank's rows of each fused matrix, if they differ in size
  int shard_replicas = 1;
  int stored = -1;       // values from an archive: index into OperatorGraph::stored; `init` is then "stored"
  bool written = false;  // a buffer that operators write into (running statistics)
  // Whole on every rank, but applied to a rank's own part of the sequence: its gradient is summed over the tensor-parallel ranks.
  bool gradient_partial = false;
  // Belongs to experts, divided along the first dimension: other ranks of an expert group hold other experts.
  bool experts = false;

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
  Bytes bytes() const { return size_of(dtype) * elements(); }
};

// An operator's argument, in schema order. Tensors by index into OperatorGraph::tensors.
struct TensorRef {
  int tensor = -1;
};
struct TensorList {
  std::vector<int> tensors;  // -1 = None, in lists of optional tensors
};
struct NoArgument {};    // None
struct DeviceOfRank {};  // the device that the rank computes on
// Enumerations (memory format, layout) are integers with ATen's numbers.
using Argument = std::variant<NoArgument, TensorRef, TensorList, std::int64_t, double, bool, std::string,
                              std::vector<std::int64_t>, DType, std::vector<double>, DeviceOfRank>;

// A region in which PyTorch chooses the element type operator by operator (torch.autocast).
struct Autocast {
  std::string device;  // "cpu", "cuda"
  DType dtype{};
};

// Communication inside a pass, as graph nodes (c10d functional collectives). Tensor parallelism uses Megatron's conjugate
// operators f and g: the backward mirrors the forward. SendReceive: each member sends to the next in its ring.
enum class CollectiveKind : std::uint8_t { None, AllReduce, AllGather, ReduceScatter, AllToAll, SendReceive };
std::string_view name_of(CollectiveKind kind);  // "all-reduce", ...; empty for None

struct Operator {
  std::string target;  // dispatcher name with overload: "aten::linear", "aten::add.Tensor"
  std::vector<Argument> arguments;
  std::vector<int> outputs;                 // tensor indices
  std::string module;                       // "transformer.h.3.attn": for names in tables
  std::vector<std::string> argument_names;  // empty: the arguments are the schema's first ones, in order
  bool recorded = true;                     // false: inside torch.no_grad(), so no gradient flows through it
  std::optional<Autocast> autocast;
  int unit = 0;  // movable unit it belongs to; units are contiguous in operator order, from 0
  // Communication in the forward and in the backward of this node (Megatron's f: none / all-reduce; g: all-reduce / none; with
  // sequence parallelism all-gather / reduce-scatter and the reverse). SendReceive: a ring of exchanges that runs next to the
  // operator, which processes each part as it arrives.
  CollectiveKind forward_collective = CollectiveKind::None;
  CollectiveKind backward_collective = CollectiveKind::None;
  Among among = Among::Tensor;  // the group that communicates
};

// A movable unit: operators that stay together when the model is cut (an attention half, an MLP half, the loss).
struct UnitInfo {
  std::string name;   // "h.3.attention"
  std::string block;  // "h.3": units of one block are recomputed together; "" = never recomputed (embedding, loss)
  int layer = -1;     // transformer layer index, -1 for embedding, head, loss
};

// How tokens choose experts. If layers differ, of the last one.
struct Routing {
  int experts = 0, per_token = 0;
  int groups = 1, groups_per_token = 1;  // a token's experts lie in this many groups; 1: in any
};

struct OperatorGraph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;  // topological order
  std::vector<UnitInfo> units;
  std::vector<int> inputs;  // tensor indices
  int loss = -1;            // the scalar loss
  Degrees degrees;          // those that shape it (Degrees::of_graph)
  Routing routing;
  double expert_rows = 1;   // rows of a rank's experts relative to the rows of its own tokens before they are sent
  std::string values_file;  // the archive with the stored values; empty for builders
  std::vector<StoredValues> stored;

  int degree(Among among) const { return degrees.group(among).members; }
  std::int64_t parameter_count() const;  // of the whole, unsharded model; tied parameters count once
  std::int64_t trained_count() const;    // the part of them that gets a gradient
  // Checks invariants (indices in range, topological order, every activation produced once, unit order). Throws InternalError.
  void check() const;
  std::string to_text() const;  // one line per operator, readable
};

}  // namespace panpipe
