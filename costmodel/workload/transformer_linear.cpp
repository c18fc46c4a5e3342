// Mixers with a state of fixed size: Gated DeltaNet, Mamba 1 and 2, lightning attention, short convolutions. Heads are divided
// over the tensor-parallel ranks as those of attention are. Under context parallelism ranks exchange features for tokens before
// the convolution and back behind the state, as Megatron-LM's Mamba layers do (megatron/core/ssm/mamba_context_parallel.py), so
// that each rank's state passes over all tokens.
#include <fmt/format.h>

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

// What enters the mixer, of this rank's heads and all tokens behind the exchange.
struct Entering {
  int mixed = -1;                 // queries, keys and values in turn, (batch, tokens, features)
  int gate = -1;                  // of the result, (batch, own tokens, features), -1: none
  std::vector<int> numbers = {};  // by head: decay, strength of the update
  bool values_first = false;      // `mixed` has values, keys and queries in turn
};

struct Widths {
  std::int64_t keys = 0, values = 0, heads = 0;  // of all heads
};

Widths widths_of(const LinearMixer& l) {
  return {std::int64_t{l.key_heads} * l.key_features, std::int64_t{l.heads} * l.features, l.heads};
}

std::vector<int> cut_features(const Transformer& m, int x, const std::vector<std::int64_t>& sizes) {
  std::vector<int> parts;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(m.g.slice(x, 2, at, at + size));
    at += size;
  }
  return parts;
}

// A column-parallel product: the rows of its fused matrices, and what its result is cut into, which is one part or all of them if
// nothing else is stated.
struct MixedProduct {
  std::string name;
  std::vector<std::int64_t> rows, parts = {};
};

std::vector<int> project_parts(const Transformer& m, int x, const std::vector<MixedProduct>& products) {
  std::vector<int> made;
  for (const MixedProduct& product : products) {
    std::int64_t all = 0;
    for (const std::int64_t rows : product.rows) all += rows;
    LinearOptions options{.bias = m.t.linear.bias, .split = Split::Column};
    if (product.rows.size() > 1) options.fused_rows = product.rows;
    const int whole = m.g.linear(x, product.name, all, options);
    std::vector<std::int64_t> own;
    for (const std::int64_t size : product.parts.empty() ? product.rows : product.parts)
      own.push_back(size / m.g.tensor_degree());
    for (const int part : own.size() > 1 ? cut_features(m, whole, own) : std::vector<int>{whole}) made.push_back(part);
  }
  return made;
}

// Two products with a narrow result between them, which all ranks hold whole.
int narrow_product(const Transformer& m, int x, const std::string& first, const std::string& second, std::int64_t features) {
  const int narrow = m.g.linear(x, first, m.t.linear.gate_rank, {.bias = false});
  m.g.sum_gradients_over_ranks(first);
  return m.g.linear(narrow, second, features, {.bias = false, .split = Split::Column});
}

Entering enter_delta_net(const Transformer& m, int x, const std::string& path) {
  const Widths w = widths_of(m.t.linear);
  if (m.t.linear.one_product) {  // by key head, and so put in order
    const std::vector<int> p = project_parts(
        m, x, {{path + ".in_proj_qkvz", {w.keys, w.keys, w.values, w.values}}, {path + ".in_proj_ba", {w.heads, w.heads}}});
    return {m.g.cat({p[0], p[1], p[2]}, 2), p[3], {p[5], p[4]}};
  }
  const std::vector<int> p = project_parts(m, x,
                                           {{path + ".in_proj_qkv", {w.keys, w.keys, w.values}, {2 * w.keys + w.values}},
                                            {path + ".in_proj_z", {w.values}},
                                            {path + ".in_proj_b", {w.heads}},
                                            {path + ".in_proj_a", {w.heads}}});
  return {p[0], p[1], {p[3], p[2]}};
}

Entering enter_channel_delta_net(const Transformer& m, int x, const std::string& path) {
  const Widths w = widths_of(m.t.linear);
  const std::vector<int> p =
      project_parts(m, x, {{path + ".q_proj", {w.keys}}, {path + ".k_proj", {w.keys}}, {path + ".v_proj", {w.values}}});
  const std::string decay = path + ".forget_gate.f";
  const int forget = narrow_product(m, x, decay + "_a_proj", decay + "_b_proj", w.keys);
  const int strength = project_parts(m, x, {{path + ".b_proj", {w.heads}}})[0];
  const int gate = narrow_product(m, x, path + ".g_a_proj", path + ".g_b_proj", w.values);
  return {m.g.cat(p, 2), gate, {forget, strength}};
}

// Mamba 2's names: x, B and C are values, keys and queries; dt is the step.
Entering enter_state_space(const Transformer& m, int x, const std::string& path) {
  const Widths w = widths_of(m.t.linear);
  const std::vector<int> p = project_parts(
      m, x, {{path + ".in_proj", {w.values, w.values, w.keys, w.keys, w.heads}, {w.values, w.values + 2 * w.keys, w.heads}}});
  return {p[1], p[0], {p[2]}, true};
}

Entering enter_lightning(const Transformer& m, int x, const std::string& path) {
  const Widths w = widths_of(m.t.linear);
  const std::vector<int> p = project_parts(
      m, x, {{path + ".qkv_proj", {w.keys, w.keys, w.values}, {2 * w.keys + w.values}}, {path + ".output_gate", {w.values}}});
  return {m.g.unary("silu", p[0]), p[1], {}};
}

// A depthwise convolution over this token and the ones before it, and its SiLU if it has one, in one kernel
// (Dao-AILab/causal-conv1d).
int convolve(const Transformer& m, int x, const std::string& path, const std::vector<std::int64_t>& channels, bool bias) {
  GraphBuilder& g = m.g;
  const bool plain = m.t.linear.kind == LinearKind::ShortConvolution;
  const std::string name = path + (plain ? ".conv" : ".conv1d");
  g.module(name);
  std::int64_t all = 0;
  for (const std::int64_t part : channels) all += part;
  const Shape rows = channels.size() > 1 ? Shape(channels) : Shape{};
  const int weight = g.parameter(name + ".weight", {all, 1, m.t.linear.kernel}, kNormalInit, 0, 1, 1, rows);
  const int offset = bias ? g.parameter(name + ".bias", {all}, "zeros", 0, 1, 1, rows) : -1;
  return g.op("panpipe_nn::causal_convolution", g.shape(x), g.dtype(x), TensorRef{x}, TensorRef{weight}, g.optional(offset),
              !plain);
}

// Numbers of the mixer itself: a head's, or a key's feature's.
std::vector<int> own_numbers(const Transformer& m, int layer, const std::string& path) {
  const LinearMixer& l = m.t.linear;
  GraphBuilder& g = m.g;
  const auto by_head = [&](const std::string& name, std::int64_t count) { return g.parameter(path + name, {count}, "ones", 0); };
  const std::int64_t heads = l.heads;
  switch (l.kind) {
    case LinearKind::GatedDelta:
      return {by_head(".dt_bias", heads), by_head(".A_log", heads)};
    case LinearKind::ChannelDelta:
      return {by_head(".forget_gate.dt_bias", heads * l.key_features),
              g.parameter(path + ".forget_gate.A_log", {1, 1, heads, 1}, "ones", 2)};
    case LinearKind::StateSpace:
      return {by_head(".dt_bias", heads), by_head(".A_log", heads), by_head(".D", heads)};
    case LinearKind::Lightning:
      return {g.buffer(path + ".slope_rate", DType::Float32, {heads / g.tensor_degree()},
                       fmt::format("lightning_slopes({} {} {})", heads, layer, m.d.layers))};
    default:
      return {};
  }
}

// (batch, all tokens, features of this rank's values)
int pass_state(const Transformer& m, const Entering& in, int mixed, int layer, const std::string& path) {
  GraphBuilder& g = m.g;
  const LinearMixer& l = m.t.linear;
  const std::int64_t ranks = std::int64_t{g.tensor_degree()} * g.request().degrees.context;
  const std::int64_t batch = g.shape(mixed)[0], tokens = g.shape(mixed)[1];
  const std::int64_t key_heads = l.key_heads / ranks, heads = l.heads / ranks;
  const std::int64_t keys = key_heads * l.key_features, values = heads * l.features;
  const bool first = in.values_first;
  const std::vector<int> p = cut_features(m, mixed, {first ? values : keys, keys, first ? keys : values});
  g.module(path);
  const int key = g.view(p[1], {batch, tokens, key_heads, l.key_features});
  const int query = g.view(p[first ? 2 : 0], {batch, tokens, key_heads, l.key_features});
  const int value = g.view(p[first ? 0 : 2], {batch, tokens, heads, l.features});
  std::vector<TensorRef> n;
  for (const int number : in.numbers) n.push_back({g.features_for_tokens(number)});
  for (const int number : own_numbers(m, layer, path)) n.push_back({number});
  const auto state = [&](std::string_view target, auto... numbers) {
    return g.op(target, g.shape(value), g.dtype(value), TensorRef{query}, TensorRef{key}, TensorRef{value}, std::int64_t{l.chunk},
                numbers...);
  };
  const int made = l.kind == LinearKind::StateSpace  ? state("panpipe_nn::state_space", n[0], n[1], n[2], n[3], l.least_step)
                   : l.kind == LinearKind::Lightning ? state("panpipe_nn::lightning_attention", n[0])
                                                     : state("panpipe_nn::gated_delta_rule", n[0], n[1], n[2], n[3]);
  return g.view(made, {batch, tokens, heads * l.features});
}

// The result normalized, by head or by group, and gated.
int leave(const Transformer& m, int made, const Entering& in, const std::string& path) {
  GraphBuilder& g = m.g;
  const LinearMixer& l = m.t.linear;
  const Shape whole = g.shape(made);
  const bool lightning = l.kind == LinearKind::Lightning, space = l.kind == LinearKind::StateSpace;
  if (space) made = g.mul(made, g.unary("silu", in.gate));
  if (l.norm) {
    const std::string name = path + (l.kind == LinearKind::ChannelDelta ? ".o_norm" : ".norm");
    if (space && !l.whole_norm) {  // each group by itself, with weights of its own
      g.module(name);
      const std::int64_t groups = l.key_heads / g.tensor_degree(), features = whole[2] / groups;
      const int weight = g.parameter(name + ".weight", {std::int64_t{l.heads} * l.features}, "ones", 0);
      const int normal = g.unweighted_rms_norm(g.view(made, {whole[0], whole[1], groups, features}), m.t.epsilon);
      made = g.mul(g.view(normal, whole), weight);
    } else if (l.whole_norm) {
      made = g.rms_norm(made, name, l.epsilon > 0 ? l.epsilon : m.t.epsilon);
    } else {
      const int heads = g.view(made, {whole[0], whole[1], whole[2] / l.features, l.features});
      made = g.view(g.rms_norm(heads, name, m.t.epsilon), whole);
      g.sum_gradients_over_ranks(name);
    }
  }
  if (space || in.gate < 0) return made;
  return g.mul(made, g.unary(lightning || l.kind == LinearKind::ChannelDelta ? "sigmoid" : "silu", in.gate));
}

// LFM2: B, C and x from one product; C times the convolution of B times x.
int short_convolution(const Transformer& m, int x, const std::string& path, bool whole) {
  GraphBuilder& g = m.g;
  const std::int64_t hidden = m.d.hidden;
  const std::vector<int> p = project_parts(m, x, {{path + ".in_proj", {hidden, hidden, hidden}}});
  const int mixed = g.features_for_tokens(g.mul(p[0], p[2]));
  const int made = g.tokens_for_features(convolve(m, mixed, path, {hidden}, m.t.linear.convolution_bias));
  return g.linear(g.mul(p[1], made), path + ".out_proj", hidden,
                  {.bias = m.t.linear.bias, .split = Split::Row, .init = residual_init(m), .partial = !whole});
}

// Mamba 1: steps, keys (B) and queries (C) come from all channels in one narrow product, whose parts the ranks add before each
// scans its own channels. That sum, and its like in the backward, are what Mamba 2 was made to avoid (arXiv 2405.21060, section
// 8.1).
int selective_scan(const Transformer& m, int x, const std::string& path, bool whole) {
  GraphBuilder& g = m.g;
  const LinearMixer& l = m.t.linear;
  const Widths w = widths_of(l);
  const std::vector<int> p = project_parts(m, x, {{path + ".in_proj", {w.values, w.values}}});
  const int value = convolve(m, p[0], path, {w.values}, l.convolution_bias);
  const int part =
      g.linear(value, path + ".x_proj", l.gate_rank + 2 * w.keys, {.bias = false, .split = Split::Row, .partial = true});
  g.module(path);
  std::vector<int> narrow = cut_features(m, g.enter_vocabulary(g.sum_parallel(part)), {l.gate_rank, w.keys, w.keys});
  const char* const names[] = {".dt_layernorm", ".b_layernorm", ".c_layernorm"};
  for (std::size_t i = 0; l.norm && i < narrow.size(); ++i) {
    const double epsilon = l.epsilon > 0 ? l.epsilon : m.t.epsilon;
    g.module(path + names[i]);
    narrow[i] = l.norm_weights ? g.rms_norm(narrow[i], path + names[i], epsilon) : g.unweighted_rms_norm(narrow[i], epsilon);
    if (l.norm_weights) g.sum_gradients_over_ranks(path + names[i]);
  }
  const int step = g.linear(narrow[0], path + ".dt_proj", w.values, {.split = Split::Column});
  g.module(path);
  const int decay = g.parameter(path + ".A_log", {w.values, w.keys}, "ones", 0);
  const int straight = g.parameter(path + ".D", {w.values}, "ones", 0);
  const int made = g.op("panpipe_nn::selective_scan", g.shape(value), g.dtype(value), TensorRef{narrow[2]}, TensorRef{narrow[1]},
                        TensorRef{value}, TensorRef{step}, TensorRef{decay}, TensorRef{straight});
  return g.linear(g.mul(made, g.unary("silu", p[1])), path + ".out_proj", m.d.hidden,
                  {.bias = l.bias, .split = Split::Row, .init = residual_init(m), .partial = !whole});
}

}  // namespace

bool TransformerTraits::has_linear() const {
  for (const Mixer mixer : mixers)
    if (mixer == Mixer::Linear || mixer == Mixer::Both) return true;
  return false;
}

void check_linear_degree(const Transformer& m, const std::string& name) {
  const LinearMixer& l = m.t.linear;
  const int tensor = m.g.tensor_degree(), context = m.g.request().degrees.context;
  if (tensor > 1 && l.norm && l.whole_norm)
    throw InputError(
        fmt::format("{} normalizes the result of all heads of its linear layers together, which is not cut; use "
                    "parallel.tensor 1",
                    name));
  const bool convolution = l.kind == LinearKind::ShortConvolution, scan = l.kind == LinearKind::SelectiveScan;
  if (scan && context > 1)
    throw InputError(
        fmt::format("{} makes each step of its scan from all channels of a token, for which ranks that exchange "
                    "channels for tokens have no rule; use parallel.context 1",
                    name));
  const auto check = [&](int heads, const char* what) {
    if (heads % (tensor * context) == 0) return;
    throw InputError(fmt::format(
        "{} has {} {} in its linear layers: tensor parallelism of {}{} does not divide them", name, heads, what, tensor,
        context > 1 ? fmt::format(" and context parallelism of {}, which exchanges them for tokens,", context) : ""));
  };
  check(convolution ? m.d.hidden : l.heads, convolution ? "features" : scan ? "channels" : "heads");
  if (!convolution && !scan) check(l.key_heads, l.kind == LinearKind::StateSpace ? "groups" : "key heads");
}

int transformer_linear(const Transformer& m, int x, int layer, const std::string& of_layer, bool whole) {
  GraphBuilder& g = m.g;
  const LinearMixer& l = m.t.linear;
  const std::string path = module_at(of_layer, m.t.names->linear);
  if (l.kind == LinearKind::ShortConvolution) return short_convolution(m, x, path, whole);
  if (l.kind == LinearKind::SelectiveScan) return selective_scan(m, x, path, whole);
  const Entering in = l.kind == LinearKind::GatedDelta     ? enter_delta_net(m, x, path)
                      : l.kind == LinearKind::ChannelDelta ? enter_channel_delta_net(m, x, path)
                      : l.kind == LinearKind::StateSpace   ? enter_state_space(m, x, path)
                                                           : enter_lightning(m, x, path);
  const Widths w = widths_of(l);
  const std::vector<std::int64_t> channels = {in.values_first ? w.values : w.keys, w.keys, in.values_first ? w.keys : w.values};
  int mixed = g.features_for_tokens(in.mixed);
  if (l.kernel > 0) mixed = convolve(m, mixed, path, channels, l.convolution_bias);
  const int made = leave(m, g.tokens_for_features(pass_state(m, in, mixed, layer, path)), in, path);
  const std::string output = path + (l.kind == LinearKind::ChannelDelta ? ".o_proj" : ".out_proj");
  return g.linear(made, output, m.d.hidden, {.bias = l.bias, .split = Split::Row, .init = residual_init(m), .partial = !whole});
}

}  // namespace panpipe
