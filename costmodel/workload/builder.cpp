#include "costmodel/workload/builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/workload/operands.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "costmodel/workload/tuning.hpp"

namespace panpipe {
namespace {

using Integers = std::vector<std::int64_t>;

// The shape of an element-wise operator's result: dimensions of 1 stretch, missing leading ones are added.
Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    const std::int64_t x = longer[offset + i], y = shorter[i];
    PANPIPE_CHECK(x == y || x == 1 || y == 1, "element-wise operands do not fit");
    result[offset + i] = std::max(x, y);
  }
  return result;
}

// "linear" of "aten::linear", "add" of "aten::add.Tensor": the exporter's name of a node.
std::string_view short_name(std::string_view target) {
  if (const auto colon = target.find("::"); colon != target.npos) target.remove_prefix(colon + 2);
  return target.substr(0, target.find('.'));
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, const WorkloadShape& shape, std::size_t expected_operators)
    : request_(shape), compute_(compute_dtype(shape.precision)) {
  graph_.name = std::move(name);
  graph_.degrees = shape.degrees.of_graph();
  graph_.degrees.sequence_parallel &= graph_.degrees.tensor > 1;
  graph_.operators.reserve(expected_operators);
  graph_.tensors.reserve(expected_operators * 2);
}

void GraphBuilder::unit(std::string name, std::string block, int layer) {
  graph_.units.push_back({std::move(name), std::move(block), layer});
  unit_ = static_cast<int>(graph_.units.size()) - 1;
}

int GraphBuilder::add_tensor(Tensor tensor) {
  graph_.tensors.push_back(std::move(tensor));
  return static_cast<int>(graph_.tensors.size()) - 1;
}

int GraphBuilder::input(std::string name, DType type, Shape dimensions) {
  graph_.inputs.push_back(add_tensor({.name = std::move(name),
                                      .role = TensorRole::Input,
                                      .dtype = type,
                                      .shape = std::move(dimensions),
                                      .requires_gradient = false}));
  return graph_.inputs.back();
}

int GraphBuilder::buffer(std::string name, DType type, Shape dimensions, std::string init) {
  return add_tensor({.name = std::move(name),
                     .role = TensorRole::Buffer,
                     .dtype = type,
                     .shape = std::move(dimensions),
                     .requires_gradient = false,
                     .init = std::move(init)});
}

int GraphBuilder::parameter(std::string name, Shape full_shape, std::string_view init, int shard, int fused_matrices,
                            int replicas, const Shape& fused_rows) {
  Tensor& tensor = graph_.tensors.emplace_back();
  tensor.name = std::move(name);
  tensor.role = TensorRole::Parameter;
  tensor.dtype = compute_;
  tensor.shape = full_shape;
  tensor.full_shape = std::move(full_shape);
  tensor.init = init;
  if (shard >= 0 && graph_.degrees.tensor > 1) {
    auto& extent = tensor.shape[shard];
    const std::int64_t shards = graph_.degrees.tensor / replicas;
    PANPIPE_CHECK(extent % (shards * fused_matrices) == 0, "a sharded parameter '" + tensor.name + "' does not divide");
    extent /= shards;
    for (const std::int64_t rows : fused_rows) {
      PANPIPE_CHECK(rows % shards == 0, "a fused matrix of '" + tensor.name + "' does not divide");
      tensor.fused_rows.push_back(rows / shards);
    }
    tensor.shard_dimension = shard;
    tensor.fused_matrices = fused_matrices;
    tensor.shard_replicas = replicas;
  }
  tensor.gradient_partial = in_sequence_region_;
  tensor.requires_gradient = request_.tuning == nullptr || is_trained(*request_.tuning, tensor.name);
  return static_cast<int>(graph_.tensors.size()) - 1;
}

int GraphBuilder::tied_parameter(std::string name, int original) {
  Tensor copy = graph_.tensors[original];
  copy.name = std::move(name);
  copy.tied_to = original;
  return add_tensor(std::move(copy));
}

int GraphBuilder::make_activation(std::string_view target, Shape dimensions, DType type) {
  return add_tensor({.name = std::string(short_name(target)) + '_' + std::to_string(graph_.tensors.size()),
                     .role = TensorRole::Activation,
                     .dtype = type,
                     .shape = std::move(dimensions),
                     .producer = static_cast<int>(graph_.operators.size())});
}

int GraphBuilder::emit(std::string_view target, std::vector<Argument> arguments, Shape dimensions, DType type) {
  PANPIPE_CHECK(unit_ >= 0, "an operator before the first unit");
  bool gradient = false;
  for_each_tensor(arguments, [&](int tensor) { gradient |= graph_.tensors[tensor].requires_gradient; });
  const int result = make_activation(target, std::move(dimensions), type);
  graph_.tensors.back().requires_gradient = gradient && differentiable(type);
  Operator& made = graph_.operators.emplace_back();
  made.target = target;
  made.arguments = std::move(arguments);
  made.outputs.push_back(result);
  made.module = module_;
  made.unit = unit_;
  return result;
}

void GraphBuilder::collectives(CollectiveKind forward, CollectiveKind backward, Among among) {
  graph_.operators.back().forward_collective = forward;
  graph_.operators.back().backward_collective = backward;
  graph_.operators.back().among = among;
}

int GraphBuilder::linear(int x, const std::string& name, std::int64_t out_features, const LinearOptions& options) {
  module(name);
  const bool row = options.split == Split::Row;
  const std::int64_t in_features = shape(x).back() * (row ? graph_.degrees.tensor : 1);
  const int shard = options.split == Split::None ? -1 : row ? 1 : 0;
  const int weight = parameter(name + ".weight", {out_features, in_features}, options.init, shard, options.fused_matrices,
                               options.replicas, options.fused_rows);
  if (!row || graph_.degrees.tensor == 1) {
    const int bias = options.bias ? parameter(name + ".bias", {out_features}, "zeros", row ? -1 : shard, options.fused_matrices,
                                              options.replicas, row ? Shape{} : options.fused_rows)
                                  : -1;
    return add_adapter(linear_op(x, weight, bias), x, name, weight, options);
  }
  const int part = add_adapter(linear_op(x, weight), x, name, weight, options);
  if (options.partial) return part;
  const int sum = leave_parallel(part);
  return options.bias ? add(sum, parameter(name + ".bias", {out_features}, "zeros")) : sum;
}

// LoRA (Hu et al., arXiv 2106.09685): two narrow products next to the frozen one, which read the same input and are added to its
// result, scaled by an operator of its own (PEFT, tuners/lora/layer.py: lora_B(lora_A(x)) * scaling; torchtune,
// modules/peft/lora.py, alike). Dropout, where it is stated, is one more, on what the first reads. They are divided as in other
// tensor-parallel LoRA implementations: for a column-parallel product the second one by its rows, for a row-parallel one the
// first by its columns, so that the following sum over the ranks covers both.
int GraphBuilder::add_adapter(int y, int x, const std::string& name, int weight, const LinearOptions& options) {
  if (request_.tuning == nullptr || !has_adapter(*request_.tuning, name, !graph_.units.back().block.empty())) return y;
  const Tuning& tuning = *request_.tuning;
  const Shape sizes = graph_.tensors[weight].full_shape;
  const bool row = options.split == Split::Row, cut = options.split != Split::None && graph_.degrees.tensor > 1;
  const int first = parameter(name + ".lora_A.weight", {tuning.rank, sizes[1]}, "normal(0.02)", row ? 1 : -1);
  const int second =
      parameter(name + ".lora_B.weight", {sizes[0], tuning.rank}, "zeros", options.split == Split::Column ? 0 : -1,
                options.fused_matrices, options.replicas, options.split == Split::Column ? options.fused_rows : Shape{});
  if (cut) graph_.tensors[row ? second : first].gradient_partial = true;
  module(name + ".lora_dropout");
  const int read = tuning.dropout > 0 ? op("aten::dropout", shape(x), dtype(x), TensorRef{x}, tuning.dropout, true) : x;
  module(name + ".lora_A");
  const int narrow = linear_op(read, first);
  module(name + ".lora_B");
  const int wide = linear_op(narrow, second);
  const int scaled = op("aten::mul.Scalar", shape(wide), dtype(wide), TensorRef{wide}, tuning.alpha / tuning.rank);
  module(name);
  return op("aten::add.Tensor", shape(y), dtype(y), TensorRef{y}, TensorRef{scaled}, std::int64_t{1});
}

int GraphBuilder::linear_op(int x, int weight, int bias) {
  PANPIPE_CHECK(shape(x).back() == shape(weight)[1], "linear: features do not fit at " + module_);
  Shape result = shape(x);
  result.back() = shape(weight)[0];
  return op("aten::linear", std::move(result), dtype(x), TensorRef{x}, TensorRef{weight}, optional(bias));
}

int GraphBuilder::layer_norm(int x, const std::string& name, double epsilon, bool has_bias) {
  module(name);
  const std::int64_t features = shape(x).back();
  const int weight = parameter(name + ".weight", {features}, "ones");
  const int bias = has_bias ? parameter(name + ".bias", {features}, "zeros") : -1;
  return op("aten::layer_norm", shape(x), dtype(x), TensorRef{x}, Integers{features}, TensorRef{weight}, optional(bias), epsilon,
            true);
}

int GraphBuilder::rms_norm(int x, const std::string& name, double epsilon, bool zero_centered) {
  module(name);
  const std::int64_t features = shape(x).back();
  const int weight = parameter(name + ".weight", {features}, zero_centered ? "zeros" : "ones");
  return op(zero_centered ? "panpipe_nn::zero_centered_rms_norm" : "aten::rms_norm", shape(x), dtype(x), TensorRef{x},
            Integers{features}, TensorRef{weight}, epsilon);
}

int GraphBuilder::unweighted_rms_norm(int x, double epsilon) {
  return op("aten::rms_norm", shape(x), dtype(x), TensorRef{x}, Integers{shape(x).back()}, NoArgument{}, epsilon);
}

int GraphBuilder::group_norm(int x, const std::string& name, int groups, double epsilon) {
  module(name);
  const std::int64_t channels = shape(x)[1];
  const int weight = parameter(name + ".weight", {channels}, "ones");
  const int bias = parameter(name + ".bias", {channels}, "zeros");
  return op("aten::group_norm", shape(x), dtype(x), TensorRef{x}, std::int64_t{groups}, TensorRef{weight}, TensorRef{bias},
            epsilon, true);
}

int GraphBuilder::embedding(int ids, int weight) {
  Shape result = shape(ids);
  result.push_back(shape(weight)[1]);
  return op("aten::embedding", std::move(result), dtype(weight), TensorRef{weight}, TensorRef{ids}, std::int64_t{-1}, false,
            false);
}

int GraphBuilder::gelu(int x, std::string approximate) {
  return op("aten::gelu", shape(x), dtype(x), TensorRef{x}, std::move(approximate));
}

int GraphBuilder::unary(std::string_view operation, int x) {
  return op("aten::" + std::string(operation), shape(x), dtype(x), TensorRef{x});
}

int GraphBuilder::add(int a, int b) {
  return op("aten::add.Tensor", broadcast(shape(a), shape(b)), dtype(a), TensorRef{a}, TensorRef{b}, std::int64_t{1});
}

int GraphBuilder::mul(int a, int b) {
  return op("aten::mul.Tensor", broadcast(shape(a), shape(b)), dtype(a), TensorRef{a}, TensorRef{b});
}

int GraphBuilder::scale(int x, double factor) {
  return factor == 1 ? x : op("aten::mul.Scalar", shape(x), dtype(x), TensorRef{x}, factor);
}

int GraphBuilder::dropout(int x) {
  if (dropout_ <= 0) return x;
  return op("aten::dropout", shape(x), dtype(x), TensorRef{x}, dropout_, true);
}

int GraphBuilder::attention(int query, int key, int value, const AttentionOptions& options) {
  const bool grouped = shape(query)[1] != shape(key)[1];
  Shape result = shape(query);
  result.back() = shape(value).back();
  NamedArguments given = {{"query", TensorRef{query}}, {"key", TensorRef{key}},       {"value", TensorRef{value}},
                          {"dropout_p", dropout_},     {"is_causal", options.causal}, {"enable_gqa", grouped}};
  if (options.scale > 0) given.emplace_back("scale", options.scale);
  given.insert(given.end(), options.own.begin(), options.own.end());
  return named_op(options.own.empty() ? std::string_view("aten::scaled_dot_product_attention") : options.target,
                  std::move(result), dtype(query), given);
}

int GraphBuilder::named_op(std::string_view target, Shape shape, DType dtype, const NamedArguments& given) {
  const OperatorRow* row = find_row(target);
  std::vector<Argument> arguments(row->names.size());
  for (const auto& [name, value] : given) {
    PANPIPE_CHECK(row->takes(name), fmt::format("{} takes no {}", target, name));
    arguments[row->position(name)] = value;
  }
  return emit(target, std::move(arguments), std::move(shape), dtype);
}

void GraphBuilder::sum_gradients_over_ranks(const std::string& name) {
  if (graph_.degrees.tensor == 1) return;
  const std::string weight = name + ".weight", bias = name + ".bias";
  for (auto tensor = graph_.tensors.rbegin(); tensor != graph_.tensors.rend(); ++tensor) {  // made just now, the weight first
    if (tensor->role != TensorRole::Parameter || (tensor->name != weight && tensor->name != bias)) continue;
    tensor->gradient_partial = true;
    if (tensor->name == weight) return;
  }
}

OperatorGraph GraphBuilder::finish(int loss) {
  graph_.loss = loss;
  return std::move(graph_);
}

}  // namespace panpipe
