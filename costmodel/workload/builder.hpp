// Writes an operator graph: one method per ATen operator, which fills in all arguments of the dispatcher's schema, infers the
// shape of the result and records unit and module. Internal to this folder; the model families use it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

struct Experts;

// Initial weights of the transformers built here (Radford et al. 2019).
inline constexpr std::string_view kNormalInit = "normal(0.02)";

// How a weight is divided over the tensor-parallel ranks: not at all, by output features, or by input features.
enum class Split : std::uint8_t { None, Column, Row };

struct LinearOptions {
  bool bias = true;
  Split split = Split::None;
  std::string_view init = kNormalInit;
  int fused_matrices = 1;  // matrices fused in one weight, each divided by itself
  int replicas = 1;        // neighbouring ranks that hold the same shard (more ranks than key-value heads)
  Shape fused_rows = {};   // rows of each fused matrix, if they differ in size
  bool partial = false;    // Split::Row: the caller adds the sum over the ranks and the bias (add_partial)
};

// Arguments by their names in the schema; those without a name here are None.
using NamedArguments = std::vector<std::pair<std::string_view, Argument>>;

struct AttentionOptions {
  bool causal = true;
  double scale = 0;         // 0: one over the square root of the head size
  NamedArguments own = {};  // of `target` beyond ATen's, such as a window; none: ATen's operator will do
  std::string_view target = "panpipe_nn::attention";
};

// A token's experts and their weights, each of shape (rows, experts per token).
struct Routed {
  int weights = -1, experts = -1;
};

// Rows at the ranks of their experts. Their number is known only on arrival: `counts` holds it, with shape (sending ranks,
// experts of this rank). If ranks divide an expert, `own_counts` holds the counts of the rows that this rank received itself. -1
// if rows do not move.
struct Arrived {
  int rows = -1, counts = -1, own_counts = -1;
};

class GraphBuilder {
 public:
  GraphBuilder(std::string name, const WorkloadShape& shape, std::size_t expected_operators);

  // Unit and module of the operators that follow.
  void unit(std::string name, std::string block = "", int layer = -1);
  void module(std::string name) { module_ = std::move(name); }

  int input(std::string name, DType dtype, Shape shape);
  int buffer(std::string name, DType dtype, Shape shape, std::string init);
  // `shard` is the dimension divided over the tensor-parallel ranks (-1: none).
  int parameter(std::string name, Shape full_shape, std::string_view init, int shard = -1, int fused_matrices = 1,
                int replicas = 1, const Shape& fused_rows = {});
  // Divided along its first dimension, the vocabulary, which is padded if the degree does not divide it.
  int vocabulary_parameter(std::string name, Shape full_shape, std::string_view init);
  // A second name for the values of an earlier parameter.
  int tied_parameter(std::string name, int original);

  // Modules with parameters "<name>.weight", "<name>.bias". `linear` with Split::Row also leaves the parallel region: the partial
  // products are summed over the ranks before the bias is added.
  int linear(int x, const std::string& name, std::int64_t out_features, const LinearOptions& options = {});
  int layer_norm(int x, const std::string& name, double epsilon, bool bias = true);
  // `zero_centered`: scales by 1 + weight, so that weight decay pulls the scale to 1.
  int rms_norm(int x, const std::string& name, double epsilon, bool zero_centered = false);
  int unweighted_rms_norm(int x, double epsilon);
  int group_norm(int x, const std::string& name, int groups, double epsilon);
  int conv2d(int x, const std::string& name, std::int64_t out_channels, int kernel, int stride, int padding);
  int embedding(int ids, int weight);

  // Operators.
  int linear_op(int x, int weight, int bias = -1);
  int gelu(int x, std::string approximate);
  int unary(std::string_view op, int x);  // silu, neg, tanh, cos, sin
  int add(int a, int b);
  int mul(int a, int b);
  int scale(int x, double factor);  // x itself if the factor is 1
  int dropout(int x);               // returns x itself if the probability is 0
  // Shape (batch, heads, tokens, features) each; values may have another number of features.
  int attention(int query, int key, int value, const AttentionOptions& options);
  int view(int x, Shape shape);
  int reshape(int x, Shape shape);
  int transpose(int x, int first, int second);
  int permute(int x, std::vector<std::int64_t> order);
  int unsqueeze(int x, int dimension);
  int expand(int x, Shape shape);
  int select(int x, int dimension, std::int64_t index);
  int slice(int x, int dimension, std::int64_t start, std::int64_t end);
  std::vector<int> split(int x, std::int64_t size, int dimension);
  int cat(const std::vector<int>& parts, int dimension);
  int cast(int x, DType dtype);
  int upsample_nearest(int x, std::int64_t height, std::int64_t width);
  int cross_entropy(int logits, int labels);  // mean over the rows whose label is not -100
  int mse_loss(int x, int target);

  // Tensor parallelism (tensor_parallel.cpp). Without it all are the identity.
  int enter_parallel(int x);                // before column-parallel products
  int leave_parallel(int x);                // after row-parallel products
  int sum_parallel(int x);                  // all-reduce, with or without sequence parallelism
  int scatter_sequence(int x);              // start of the sequence-parallel region
  int gather_sequence(int x);               // end of it: every rank then computes the same
  int enter_vocabulary(int x);              // before a head divided over the vocabulary, if the ranks hold the same x
  int vocabulary_start(std::int64_t rows);  // buffer: the first vocabulary row of this rank
  int vocabulary_embedding(int ids, int weight, std::int64_t vocabulary);  // partial sums; leave_parallel or sum_parallel follows
  int vocabulary_cross_entropy(int logits, int labels, std::int64_t vocabulary);

  // Context parallelism (context_parallel.cpp). All are the identity without it, and under another exchange than theirs.
  int whole_context(int x);     // keys or values of the whole sequence, instead of the rank's own
  int heads_for_tokens(int x);  // from all heads and own tokens to own heads and all tokens
  int tokens_for_heads(int x);  // and back
  void attend_over_context();   // the last attention gathers the whole sequence's keys and values
  // (batch, tokens, features): from all features and own tokens to own features and all tokens, under each exchange.
  int features_for_tokens(int x);
  int tokens_for_features(int x);  // and back

  // Experts (experts.cpp). Rows are tokens. A row for several experts is sent several times, sorted by expert.
  Routed route(int logits, int correction, const Experts& of);
  int dispatch(int rows, int chosen, int per_token);
  // True if experts are divided differently from the other products. Tokens are then sent to the ranks of their experts; each
  // rank sends those of its part of the sequence.
  bool experts_apart() const { return graph_.degrees.experts_apart(); }
  int expert_tensor() const { return graph_.degrees.expert_tensor_group(); }
  // A weight or bias of all experts, (experts, ...), divided over the ranks that hold experts, and along `shard` over the ranks
  // that divide an expert.
  int expert_parameter(std::string name, Shape full_shape, std::string_view init, int shard = -1, int fused_matrices = 1);
  // Sends rows to the ranks of their experts and back; the identity unless experts are apart.
  Arrived send_to_experts(int rows, int chosen);
  int send_back(int rows, const Arrived& arrived, std::int64_t sent);
  // Sorts rows from several ranks by this rank's experts; with `back`, restores the order of the ranks.
  int regroup(int rows, const Arrived& arrived, int experts, bool back);
  int grouped_linear(int rows, int chosen, const Arrived& arrived, int weight, int bias, std::int64_t out_features,
                     bool transposed);
  int combine(int rows, const Routed& routed);

  // Every rank holds the module's parameters whole and uses them for its own part, so gradients are summed.
  void sum_gradients_over_ranks(const std::string& name);

  Argument optional(int tensor) const { return tensor < 0 ? Argument(NoArgument{}) : Argument(TensorRef{tensor}); }
  // Any other operator, with its arguments in schema order.
  template <class... Arguments>
  int op(std::string_view target, Shape shape, DType dtype, Arguments&&... arguments) {
    std::vector<Argument> list;
    list.reserve(sizeof...(arguments));
    (list.emplace_back(std::forward<Arguments>(arguments)), ...);
    return emit(target, std::move(list), std::move(shape), dtype);
  }
  // Sets the collectives of the last operator.
  void collectives(CollectiveKind forward, CollectiveKind backward, Among among = Among::Tensor);

  const Shape& shape(int x) const { return graph_.tensors[x].shape; }
  DType dtype(int x) const { return graph_.tensors[x].dtype; }
  DType compute() const { return compute_; }
  int tensor_degree() const { return graph_.degrees.tensor; }
  bool sequence_parallel() const { return graph_.degrees.sequence_parallel; }
  const WorkloadShape& request() const { return request_; }
  void set_dropout(double probability) { dropout_ = probability; }

  OperatorGraph finish(int loss);

 private:
  int add_tensor(Tensor tensor);
  int add_adapter(int y, int x, const std::string& name, int weight, const LinearOptions& options);
  int emit(std::string_view target, std::vector<Argument> arguments, Shape shape, DType dtype);
  int along_sequence(std::string_view target, int x, bool whole, CollectiveKind forward, CollectiveKind backward);
  int exchange_heads(int x, std::size_t grows, std::size_t shrinks);
  int exchange(int x, std::size_t grows, std::size_t shrinks);
  int named_op(std::string_view target, Shape shape, DType dtype, const NamedArguments& given);
  int make_activation(std::string_view target, Shape shape, DType dtype);
  int second_output(std::string_view target, Shape shape);

  OperatorGraph graph_;
  WorkloadShape request_;
  DType compute_;
  double dropout_ = 0.0;
  std::string module_;
  int unit_ = -1;
  int vocabulary_start_ = -1;
  bool in_sequence_region_ = false;  // activations hold only this rank's part of the sequence
};

// Rows of the vocabulary over all ranks: the vocabulary if the degree divides it, else the next multiple of 128 x degree, as in
// Megatron.
std::int64_t padded_vocabulary(std::int64_t vocabulary, int degree);

}  // namespace panpipe
