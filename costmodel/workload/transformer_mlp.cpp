// The second half of a transformer's layer: an MLP, gated or not, or experts with a router.
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

int activate(const Transformer& m, int x) {
  GraphBuilder& g = m.g;
  switch (m.t.activation) {
    case Activation::Gelu:
      return g.gelu(x, "none");
    case Activation::GeluTanh:
      return g.gelu(x, "tanh");
    case Activation::Silu:
      return g.unary("silu", x);
    case Activation::Relu:
      return g.unary("relu", x);
    case Activation::ReluSquared:
      break;
  }
  const int positive = g.unary("relu", x);
  return g.mul(positive, positive);
}

// Gate and up from one matrix: the gate first.
int fused_gate(const Transformer& m, int normal, const std::string& path) {
  GraphBuilder& g = m.g;
  const int both = g.linear(normal, module_at(path, m.t.names->gate_up), 2 * m.d.ffn,
                            {.bias = m.t.mlp_bias, .split = Split::Column, .fused_matrices = 2});
  g.module(module_at(path, m.t.names->activation));
  const std::vector<int> parts = g.split(both, m.d.ffn / g.tensor_degree(), 2);
  return g.mul(activate(m, parts[0]), parts[1]);
}

int dense(const Transformer& m, int normal, const std::string& path, std::string_view folder, int ffn, bool whole,
          double deviations = 0) {
  GraphBuilder& g = m.g;
  const ModuleNames& names = *m.t.names;
  const std::string base = module_at(path, folder);
  const LinearOptions column{.bias = m.t.mlp_bias, .split = Split::Column};
  int active = -1;
  if (m.t.gated && m.t.fused_gate && folder.empty()) {
    active = fused_gate(m, normal, path);
  } else if (m.t.gated) {
    int gate = g.linear(normal, folder.empty() ? module_at(base, names.gate) : base + ".gate_proj", ffn, column);
    if (deviations != 0) gate = g.op("panpipe_nn::sparse_gate", g.shape(gate), g.dtype(gate), TensorRef{gate}, deviations);
    const int up = g.linear(normal, folder.empty() ? module_at(base, names.up) : base + ".up_proj", ffn, column);
    g.module(module_at(path, names.activation));
    active = g.mul(activate(m, gate), up);
  } else {
    const int wide = g.linear(normal, folder.empty() ? module_at(base, names.up) : base + ".up_proj", ffn, column);
    if (!names.activation.empty()) g.module(module_at(path, names.activation));
    active = activate(m, wide);
  }
  return g.linear(active, folder.empty() ? module_at(base, names.down) : base + ".down_proj", m.d.hidden,
                  {.bias = m.t.mlp_bias, .split = Split::Row, .init = residual_init(m), .partial = !whole});
}

// The products around experts that read and write fewer features. Each rank has all of their weights and its own rows, or its own
// part of the experts' sum.
int latent_product(const Transformer& m, int rows, const std::string& name, std::int64_t features) {
  const int made = m.g.linear(rows, name, features, {.bias = false});
  m.g.sum_gradients_over_ranks(name);
  return made;
}

int clamped_gate(const Transformer& m, int gate, int up) {
  GraphBuilder& g = m.g;
  const Experts& e = m.t.experts;
  const int active = g.op("panpipe_nn::clamped_silu", g.shape(gate), g.dtype(gate), TensorRef{gate}, e.gate_limit, e.gate_slope);
  return g.op("panpipe_nn::clamped_product", g.shape(up), g.dtype(up), TensorRef{active}, TensorRef{up}, e.gate_limit);
}

// Every token goes to its experts, passes their MLPs, and comes back as the sum weighted by the router. All ranks of a
// tensor-parallel group choose alike, and each holds a part of every expert's width; or experts stand apart, and each rank sends
// its own tokens to theirs.
int experts(const Transformer& m, int normal, const std::string& path) {
  GraphBuilder& g = m.g;
  const Experts& e = m.t.experts;
  const bool apart = g.experts_apart();
  const Shape tokens = g.shape(normal);
  const std::int64_t rows = tokens[0] * tokens[1], hidden = e.latent > 0 ? e.latent : m.d.hidden;
  const std::int64_t ffn = e.ffn, count = e.count;
  const std::string folder = module_at(path, m.t.names->experts);
  const int flat = g.view(normal, {rows, m.d.hidden});
  const int logits = g.linear(flat, module_at(path, m.t.names->router), count, {.bias = e.router_bias});
  g.sum_gradients_over_ranks(module_at(path, m.t.names->router));  // each rank weighs its own part of the experts' outputs
  g.module(module_at(path, m.t.names->router));
  const int correction =
      e.correction ? g.buffer(module_at(path, m.t.names->router) + ".e_score_correction_bias", DType::Float32, {count}, "zeros")
                   : -1;
  const Routed routed = g.route(logits, correction, e);
  const int entering =
      e.latent > 0 ? latent_product(m, flat, module_at(path, m.t.names->core) + ".fc1_latent_proj", e.latent) : flat;
  g.module(folder);
  const int sent = g.dispatch(entering, routed.experts, e.per_token);
  const Arrived arrived = g.send_to_experts(sent, routed.experts);
  const int received = g.regroup(arrived.rows, arrived, e.count, false);
  const auto weight = [&](const char* name, Shape shape, int out_dimension, bool row, int fused) {
    if (e.transposed) std::swap(shape[1], shape[2]);
    const int shard = row == e.transposed ? 1 : 2;
    return g.expert_parameter(folder + name, std::move(shape), row ? residual_init(m) : std::string(kNormalInit),
                              out_dimension >= 0 ? out_dimension : shard, fused);
  };
  const int wide = m.t.gated ? 2 : 1;
  const std::int64_t own = ffn / g.expert_tensor();
  const int first =
      weight(m.t.gated ? ".gate_up_proj" : ".up_proj", {count, wide * ffn, hidden}, e.transposed ? 2 : 1, false, wide);
  const int first_bias = e.biases ? g.expert_parameter(folder + ".gate_up_proj_bias", {count, wide * ffn}, "zeros", 1, wide) : -1;
  const int made = g.grouped_linear(received, routed.experts, arrived, first, first_bias, wide * own, e.transposed);
  int active = -1;
  if (m.t.gated) {
    const std::vector<int> parts = g.split(made, own, 1);
    active = e.gate_limit > 0 ? clamped_gate(m, parts[0], parts[1]) : g.mul(activate(m, parts[0]), parts[1]);
  } else {
    active = activate(m, made);
  }
  const int second = weight(".down_proj", {count, hidden, ffn}, e.transposed ? 1 : 2, true, 1);
  const int second_bias = e.biases ? g.expert_parameter(folder + ".down_proj_bias", {count, hidden}, "zeros") : -1;
  const int back = g.grouped_linear(active, routed.experts, arrived, second, second_bias, hidden, e.transposed);
  const int returned = g.send_back(g.regroup(back, arrived, e.count, true), arrived, g.shape(sent)[0]);
  int left = g.combine(returned, routed);
  if (e.latent > 0) left = latent_product(m, left, module_at(path, m.t.names->core) + ".fc2_latent_proj", m.d.hidden);
  const int mixed = g.view(left, tokens);
  if (e.shared_ffn == 0) return mixed;
  const int shared = dense(m, apart ? g.enter_parallel(normal) : normal, path, m.t.names->shared, e.shared_ffn, apart);
  if (!e.shared_gate) return g.add(mixed, shared);
  const int gate = g.linear(normal, module_at(path, m.t.names->shared) + "_gate", 1, {.bias = false});
  g.sum_gradients_over_ranks(module_at(path, m.t.names->shared) + "_gate");
  return g.add(mixed, g.mul(g.unary("sigmoid", gate), shared));
}

}  // namespace

int transformer_mlp(const Transformer& m, int x, int layer, const std::string& path, bool whole) {
  if (!m.t.has_experts(layer))
    return dense(m, x, path, "", m.d.ffn, whole, m.t.gate_deviations.empty() ? 0 : m.t.gate_deviations[layer]);
  const int made = experts(m, x, path);
  return whole && !m.g.experts_apart() ? m.g.leave_parallel(made) : made;
}

int transformer_activation(const Transformer& model, int x) { return activate(model, x); }

}  // namespace panpipe
