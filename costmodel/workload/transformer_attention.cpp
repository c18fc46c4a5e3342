// Attention of a transformer: queries, keys and values from one product, from three, or from latents; norms of queries and keys;
// rotary positions.
#include <fmt/format.h>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

constexpr double kLatentEpsilon = 1e-6;  // of the norms of latents and of the indexer's keys, in every file

// Queries, keys and values, each (batch, heads of this rank, tokens, features).
struct Heads {
  int query = -1, key = -1, value = -1;
  int gate = -1;    // of the result, (batch, tokens, features of all heads), -1: none
  int chosen = -1;  // the keys of each query, -1: all
};

int split_heads(const Transformer& m, int flat, std::int64_t features) {
  const std::int64_t batch = m.g.request().degrees.micro;
  return m.g.view(flat, {batch, m.tokens, m.g.shape(flat).back() / features, features});
}

// Ranks that hold the same keys and values: there are fewer key-value heads than ranks.
int replicas_of(const Transformer& m) { return std::max(1, m.g.tensor_degree() / key_value_heads(m.d)); }

int norm_of_heads(const Transformer& m, int x, const std::string& name) {
  const int normal = m.t.query_key_norm_kind == NormKind::Rms ? m.g.rms_norm(x, name, m.t.epsilon, m.t.zero_centered_norms)
                                                              : m.g.layer_norm(x, name, m.t.epsilon);
  m.g.sum_gradients_over_ranks(name);  // each rank normalizes its own heads with the same weights
  return normal;
}

// Queries and the gate of the result from one product: for each head the one, then the other.
template <class Project>
Heads with_gate(const Transformer& m, int normal, const std::string& path, Project project) {
  GraphBuilder& g = m.g;
  const ModuleNames& names = *m.t.names;
  const std::int64_t features = features_of_head(m.d), batch = g.request().degrees.micro;
  const int both = split_heads(
      m,
      g.linear(normal, module_at(path, names.query), 2 * m.d.heads * features, {.bias = m.t.query_bias, .split = Split::Column}),
      2 * features);
  Heads made;
  made.query = g.slice(both, 3, 0, features);
  if (m.t.query_key_norm == QueryKeyNorm::PerHead) made.query = norm_of_heads(m, made.query, module_at(path, names.query_norm));
  made.query = g.transpose(made.query, 1, 2);
  made.gate = g.reshape(g.slice(both, 3, features, 2 * features), {batch, m.tokens, m.d.heads / g.tensor_degree() * features});
  made.key = project(names.key, key_value_heads(m.d), replicas_of(m), names.key_norm);
  made.value = project(names.value, key_value_heads(m.d), replicas_of(m), "");
  return made;
}

// A separate product for each of them.
Heads separate(const Transformer& m, int normal, int layer, const std::string& path) {
  const ModelDimensions& d = m.d;
  const ModuleNames& names = *m.t.names;
  const std::int64_t features = features_of_head(d);
  const auto project = [&m, normal, features, &path](std::string_view part, int heads, int replicas, std::string_view norm) {
    const LinearOptions options{.bias = m.t.query_bias, .split = Split::Column, .replicas = replicas};
    int flat = m.g.linear(normal, module_at(path, part), heads * features, options);
    if (!norm.empty() && m.t.query_key_norm == QueryKeyNorm::Whole) flat = norm_of_heads(m, flat, module_at(path, norm));
    int parted = split_heads(m, flat, features);
    if (!norm.empty() && m.t.query_key_norm == QueryKeyNorm::PerHead) parted = norm_of_heads(m, parted, module_at(path, norm));
    if (norm.empty() && m.t.value_norm) parted = m.g.unweighted_rms_norm(parted, m.t.epsilon);
    return m.g.transpose(parted, 1, 2);
  };
  const int replicas = replicas_of(m);
  if (m.t.output_gate == OutputGate::WithQuery) return with_gate(m, normal, path, project);
  const int q = project(names.query, d.heads, 1, names.query_norm);
  if (m.t.shares_keys(layer)) return {q};
  const int k = project(names.key, key_value_heads(d), replicas, names.key_norm);
  return {q, k, project(names.value, key_value_heads(d), replicas, "")};
}

// All queries, then all keys, then all values.
Heads in_turn(const Transformer& m, int normal, const std::string& path) {
  GraphBuilder& g = m.g;
  const std::int64_t features = features_of_head(m.d), degree = g.tensor_degree();
  const std::int64_t queries = m.d.heads * features, keys = key_value_heads(m.d) * features;
  LinearOptions options{.bias = m.t.query_bias, .split = Split::Column};
  if (queries == keys)
    options.fused_matrices = 3;
  else
    options.fused_rows = {queries, keys, keys};
  const int fused = g.linear(normal, module_at(path, m.t.names->fused), queries + 2 * keys, options);
  g.module(module_at(path, m.t.names->core));
  std::vector<int> parts;
  if (queries == keys) {
    parts = g.split(fused, queries / degree, 2);
  } else {
    const std::int64_t q = queries / degree, k = keys / degree;
    parts = {g.slice(fused, 2, 0, q), g.slice(fused, 2, q, q + k), g.slice(fused, 2, q + k, q + 2 * k)};
  }
  for (int& part : parts) part = g.transpose(split_heads(m, part, features), 1, 2);
  return {parts[0], parts[1], parts[2]};
}

// For every key-value head its queries, its key and its value.
Heads by_head(const Transformer& m, int normal, const std::string& path) {
  GraphBuilder& g = m.g;
  const std::int64_t features = features_of_head(m.d), batch = g.request().degrees.micro;
  const std::int64_t group = m.d.heads / key_value_heads(m.d), groups = key_value_heads(m.d) / g.tensor_degree();
  const int fused = g.linear(normal, module_at(path, m.t.names->fused), (m.d.heads + 2 * key_value_heads(m.d)) * features,
                             {.bias = m.t.query_bias, .split = Split::Column});
  g.module(module_at(path, m.t.names->core));
  const int grouped = g.view(fused, {batch, m.tokens, groups, group + 2, features});
  const auto part = [&](std::int64_t first, std::int64_t end) {
    const int heads = g.reshape(g.slice(grouped, 3, first, end), {batch, m.tokens, groups * (end - first), features});
    return g.transpose(heads, 1, 2);
  };
  const int q = part(0, group), k = part(group, group + 1);
  return {q, k, part(group + 1, group + 2)};
}

// x cos + rotate(x) sin over the first features of a head, where rotate swaps their halves and negates the first.
int rotate(const Transformer& m, int x, int cosine, int sine) {
  GraphBuilder& g = m.g;
  const std::int64_t rotated = g.shape(cosine).back(), features = g.shape(x).back();
  const int part = rotated == features ? x : g.slice(x, 3, 0, rotated);
  const int straight = g.mul(part, cosine);
  const int low = g.slice(part, 3, 0, rotated / 2);
  const int high = g.slice(part, 3, rotated / 2, rotated);
  const int swapped = g.cat({g.unary("neg", high), low}, 3);
  const int turned = g.add(straight, g.mul(swapped, sine));
  return rotated == features ? turned : g.cat({turned, g.slice(x, 3, rotated, features)}, 3);
}

// (batch, tokens, features of heads) with the first features of each head turned by its position.
int turned_by_position(const Transformer& m, int x, std::int64_t features) {
  GraphBuilder& g = m.g;
  const Shape flat = g.shape(x);
  const int heads = g.transpose(g.view(x, {flat[0], flat[1], flat[2] / features, features}), 1, 2);
  return g.reshape(g.transpose(rotate(m, heads, m.cosine, m.sine), 1, 2), flat);
}

// The keys of each query, by the sum over narrow heads of weighted, rectified scores. All ranks choose alike, as in Megatron-LM.
// A layer that takes the choice of the one before costs nothing.
int chosen_keys(const Transformer& m, int x, int narrow, int layer, const std::string& name) {
  GraphBuilder& g = m.g;
  const KeyIndex& k = m.t.index;
  if (!k.shared.empty() && k.shared[layer]) return m.chosen;
  const LinearOptions none{.bias = false};
  const int query = g.linear(narrow, name + ".wq_b", std::int64_t{k.heads} * k.features, none);
  const int key = g.layer_norm(g.linear(x, name + ".wk", k.features, none), name + ".k_norm", kLatentEpsilon);
  const int weight = g.linear(x, name + ".weights_proj", k.heads, none);
  g.module(name);
  const int queries = turned_by_position(m, g.gather_sequence(query), k.features);
  const int keys = turned_by_position(m, g.gather_sequence(key), k.features), weights = g.gather_sequence(weight);
  const std::int64_t chosen = std::min<std::int64_t>(k.keys, m.d.sequence);
  m.chosen = g.op("panpipe_nn::choose_keys", {g.shape(queries)[0], m.tokens, chosen}, DType::Int32, TensorRef{queries},
                  TensorRef{keys}, TensorRef{weights}, std::int64_t{k.heads}, chosen);
  return m.chosen;
}

// The latents are narrow and the same on all ranks; what is made of them is cut by heads.
Heads latent(const Transformer& m, int x, int layer, const std::string& path) {
  GraphBuilder& g = m.g;
  const LatentAttention& l = m.t.latent;
  const std::int64_t batch = g.request().degrees.micro, heads = m.d.heads, own = heads / g.tensor_degree();
  const std::int64_t query = l.plain + l.rotary;
  const std::string core = module_at(path, m.t.names->core);
  const LinearOptions none{.bias = false}, column{.bias = false, .split = Split::Column};
  int narrow = x;
  if (l.query_rank > 0) {
    LinearOptions first = none;
    first.bias = m.t.query_bias;
    narrow = g.rms_norm(g.linear(x, core + ".q_a_proj", l.query_rank, first), core + ".q_a_layernorm", kLatentEpsilon);
  }
  LinearOptions first = none;
  first.bias = m.t.query_bias;
  const int both = g.linear(x, core + ".kv_a_proj_with_mqa", l.kv_rank + l.rotary, first);
  const int compressed = g.rms_norm(g.slice(both, 2, 0, l.kv_rank), core + ".kv_a_layernorm", kLatentEpsilon);
  g.module(core);
  const int shared = g.slice(both, 2, l.kv_rank, l.kv_rank + l.rotary);

  const int chosen = m.t.index.heads > 0 ? chosen_keys(m, x, narrow, layer, core + ".indexer") : -1;
  const int wide_query = g.enter_parallel(narrow), wide_kv = g.enter_parallel(compressed), key = g.enter_parallel(shared);
  const int q = g.transpose(
      split_heads(m, g.linear(wide_query, core + (l.query_rank > 0 ? ".q_b_proj" : ".q_proj"), heads * query, column), query), 1,
      2);
  const int kv = g.transpose(
      split_heads(m, g.linear(wide_kv, core + ".kv_b_proj", heads * (l.plain + l.value), column), l.plain + l.value), 1, 2);
  g.module(core);
  const auto turned = [&](int part) { return m.t.rotates(layer) ? rotate(m, part, m.cosine, m.sine) : part; };
  const int plain_query = g.slice(q, 3, 0, l.plain), turned_query = turned(g.slice(q, 3, l.plain, query));
  const int one = g.transpose(g.view(key, {batch, m.tokens, 1, l.rotary}), 1, 2);
  const int turned_key = g.expand(turned(one), {batch, own, m.tokens, l.rotary});
  return {g.cat({plain_query, turned_query}, 3), g.cat({g.slice(kv, 3, 0, l.plain), turned_key}, 3),
          g.slice(kv, 3, l.plain, l.plain + l.value), -1, chosen};
}

Heads project(const Transformer& m, int normal, int layer, const std::string& path) {
  if (m.t.projections == FusedProjections::InTurn) return in_turn(m, normal, path);
  if (m.t.projections == FusedProjections::ByHead) return by_head(m, normal, path);
  return separate(m, normal, layer, path);
}

AttentionOptions options_of(const Transformer& m, int layer, const std::string& path, int chosen) {
  AttentionOptions options{.causal = m.t.causal, .scale = m.t.attention_scale};
  if (m.t.index.heads > 0 && m.t.index.keys < m.d.sequence) {
    options.target = "panpipe_nn::sparse_attention";
    options.own = {{"chosen", TensorRef{chosen}}, {"window", std::int64_t{m.t.index.keys}}};
    return options;
  }
  const int window = m.t.window_of(layer) < m.d.sequence ? m.t.window_of(layer) : 0;
  Argument sinks, slopes;
  if (m.t.sinks) sinks = TensorRef{m.g.parameter(module_at(path, m.t.names->core) + ".sinks", {m.d.heads}, kNormalInit, 0)};
  if (m.t.positions == Positions::Alibi)
    slopes = TensorRef{m.g.buffer("alibi_slopes", DType::Float32, {m.d.heads / m.g.tensor_degree()},
                                  fmt::format("alibi_slopes({})", m.d.heads))};
  if (window > 0 || m.t.score_cap > 0 || m.t.sinks || m.t.positions == Positions::Alibi)
    options.own = {{"sinks", sinks}, {"slopes", slopes}, {"window", std::int64_t{window}}, {"cap", m.t.score_cap}};
  return options;
}

// Each block of neighbouring tokens by itself, as heads of their own.
int in_blocks(const Transformer& m, int query, int key, int value, int layer, const std::string& path) {
  GraphBuilder& g = m.g;
  const Shape all = g.shape(query);
  const std::int64_t block = m.t.attention_blocks[layer];
  const auto cut = [&](int x) { return g.reshape(x, {all[0], all[1] * all[2] / block, block, all[3]}); };
  return g.reshape(g.attention(cut(query), cut(key), cut(value), options_of(m, layer, path, -1)), all);
}

}  // namespace

void add_rotary_tables(Transformer& m) {
  if (m.t.positions != Positions::Rotary) return;
  const std::string folder = m.t.causal ? "" : "vision.";  // two transformers of a model have tables of their own
  const std::int64_t head = m.t.latent.kv_rank > 0 ? m.t.latent.rotary : features_of_head(m.d);
  const std::int64_t features = m.t.rotary_features > 0 ? m.t.rotary_features : head;
  std::string scaling;
  const auto table = [&](const char* name, const char* function, double base) {
    return m.g.buffer(folder + name, m.g.compute(), {m.tokens, features}, fmt::format("{}({:.17g}{})", function, base, scaling));
  };
  scaling = m.t.rotary_scaling.empty() ? "" : " " + m.t.rotary_scaling;
  m.cosine = table("rotary.cos", "rotary_cos", m.t.rotary_base);
  m.sine = table("rotary.sin", "rotary_sin", m.t.rotary_base);
  scaling.clear();  // layers with windows turn by the plain table
  m.local_cosine = m.cosine, m.local_sine = m.sine;
  if (m.t.rotary_local_base <= 0 || m.t.rotary_local_base == m.t.rotary_base) return;
  m.local_cosine = table("rotary_local.cos", "rotary_cos", m.t.rotary_local_base);
  m.local_sine = table("rotary_local.sin", "rotary_sin", m.t.rotary_local_base);
}

int transformer_attention(const Transformer& m, int x, int layer, const std::string& path, bool whole) {
  GraphBuilder& g = m.g;
  const bool from_latents = m.t.latent.kv_rank > 0;
  Heads heads = from_latents ? latent(m, x, layer, path) : project(m, x, layer, path);
  if (m.t.output_gate == OutputGate::Own)
    heads.gate = g.linear(x, module_at(path, m.t.names->output_gate), std::int64_t{m.d.heads} * features_of_head(m.d),
                          {.bias = false, .split = Split::Column});
  g.module(module_at(path, m.t.names->core));
  if (!from_latents && m.t.rotates(layer)) {
    const bool local = m.t.window_of(layer) > 0;
    const int cosine = local ? m.local_cosine : m.cosine, sine = local ? m.local_sine : m.sine;
    heads.query = rotate(m, heads.query, cosine, sine);
    if (heads.key >= 0) heads.key = rotate(m, heads.key, cosine, sine);
    if (m.t.query_key_norm == QueryKeyNorm::Unweighted)
      for (int* part : {&heads.query, &heads.key}) *part = g.unweighted_rms_norm(*part, m.t.epsilon);
  }
  const int kind = m.t.window_of(layer) > 0 ? 1 : 0;
  if (heads.key >= 0)
    m.keys[kind] = heads.key, m.values[kind] = heads.value;
  else
    heads.key = m.keys[kind], heads.value = m.values[kind];
  const int query = g.heads_for_tokens(heads.query);
  const int key = g.whole_context(g.heads_for_tokens(heads.key)), value = g.whole_context(g.heads_for_tokens(heads.value));
  const int attended = m.t.attention_blocks.empty() ? g.attention(query, key, value, options_of(m, layer, path, heads.chosen))
                                                    : in_blocks(m, query, key, value, layer, path);
  g.attend_over_context();
  const int mixed = g.transpose(g.tokens_for_heads(attended), 1, 2);
  const std::int64_t values = g.shape(mixed)[2] * g.shape(mixed)[3];
  int joined = g.reshape(mixed, {g.request().degrees.micro, m.tokens, values});
  if (heads.gate >= 0) joined = g.mul(joined, g.unary("sigmoid", heads.gate));
  return g.linear(joined, module_at(path, m.t.names->output), m.d.hidden,
                  {.bias = m.t.output_bias, .split = Split::Row, .init = residual_init(m), .partial = !whole});
}

}  // namespace panpipe
