#include "exec/engine/weights/stored_form.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {
namespace {

// Names of an expert's matrices.
struct ExpertNames {
  const char *gate, *up, *down;
};
constexpr ExpertNames kQwenExperts = {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"};
constexpr ExpertNames kMixtralExperts = {".w1.weight", ".w3.weight", ".w2.weight"};
constexpr std::string_view kLikeMixtral = " mixtral minimax lfm2_moe kimi_linear ";

constexpr std::string_view kIndexer = ".indexer.";

// Parts of names that files of these classes (between spaces) have in place of ours.
struct Renaming {
  std::string_view types, ours, theirs;
};
constexpr Renaming kRenamings[] = {{" mixtral minimax kimi_linear ", ".mlp.", ".block_sparse_moe."},
                                   {" kimi_linear ", ".forget_gate.", "."},
                                   {" lfm2_moe ", ".gate.e_score_correction_bias", ".expert_bias"}};

bool is_among(std::string_view types, const std::string& type) { return types.find(" " + type + " ") != types.npos; }

bool is_of_conv1d(const std::string& name) {
  return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
}

std::string renamed(std::string name, const std::string& type) {
  for (const Renaming& row : kRenamings)
    if (const auto at = name.find(row.ours); is_among(row.types, type) && at != std::string::npos)
      name.replace(at, row.ours.size(), row.theirs);
  return name;
}

bool is_gate_up(const std::string& name) { return name.ends_with(".experts.gate_up_proj"); }
bool is_up(const std::string& name) { return name.ends_with(".experts.up_proj"); }
bool is_down(const std::string& name) { return name.ends_with(".experts.down_proj"); }

StoredForm form_of_experts(const Tensor& parameter, const ExpertNames& names) {
  const Shape& whole = whole_shape(parameter);
  const bool gate = is_gate_up(parameter.name);
  StoredForm form{gate ? StoredLayout::GateUp : StoredLayout::Down, {}};
  const std::string base = parameter.name.substr(0, parameter.name.rfind('.') + 1);
  for (std::int64_t e = 0; e < whole[0]; ++e) {
    const std::string expert = base + std::to_string(e);
    if (!gate) {
      form.parts.push_back({expert + (is_up(parameter.name) ? names.up : names.down), {whole[1], whole[2]}});
      continue;
    }
    for (const char* matrix : {names.gate, names.up}) form.parts.push_back({expert + matrix, {whole[1] / 2, whole[2]}});
  }
  return form;
}

StoredForm plain(const Tensor& parameter, StoredLayout layout) {
  StoredPart part{parameter.name, whole_shape(parameter)};
  if (layout == StoredLayout::Transposed) std::reverse(part.shape.begin(), part.shape.end());
  return {layout, {std::move(part)}};
}

// Rows of a head in weights of which some rows turn in pairs: of queries, of the key that all heads share, and of GLM 5's
// indexer, where the first ones turn instead of the last; 0 where none do.
std::int64_t rows_of_group(const std::string& name, const StoredModel& model) {
  const LatentAttention& latent = model.latent;
  if (latent.kv_rank == 0) return 0;
  if (name.find(kIndexer) != name.npos)
    return model.type == "glm_moe_dsa" && !name.ends_with(".weights_proj.weight") ? model.index_features : 0;
  if (name.ends_with(".q_b_proj.weight") || name.ends_with(".self_attn.q_proj.weight")) return latent.plain + latent.rotary;
  const bool key = name.ends_with(".kv_a_proj_with_mqa.weight") || name.ends_with(".kv_a_proj_with_mqa.bias");
  return key ? latent.kv_rank + latent.rotary : 0;
}

// The rows of a head in each of the matrices that a product fuses; empty where files have the matrices in turn.
Shape rows_by_head(const std::string& name, const StoredModel& model) {
  const LinearMixer& l = model.linear;
  if (model.type == "minimax" && name.ends_with(".qkv_proj.weight")) return {l.key_features, l.key_features, l.features};
  if (model.type != "qwen3_next") return {};
  const std::int64_t values = l.heads / l.key_heads;  // heads of them for a head of keys
  if (name.ends_with(".in_proj_ba.weight")) return {values, values};
  if (!name.ends_with(".in_proj_qkvz.weight")) return {};
  return {l.key_features, l.key_features, values * l.features, values * l.features};
}

// Heads of rows of several matrices to the matrices, or back.
at::Tensor in_other_order(const Shape& of_head, const at::Tensor& rows, bool to_matrices) {
  const std::int64_t all = std::accumulate(of_head.begin(), of_head.end(), std::int64_t{0}), heads = rows.size(0) / all;
  std::vector<at::Tensor> parts;
  std::int64_t at = 0;
  for (const std::int64_t own : of_head) {
    if (to_matrices)
      parts.push_back(rows.unflatten(0, {heads, all}).narrow(1, at, own).flatten(0, 1));
    else
      parts.push_back(rows.narrow(0, at * heads, own * heads).unflatten(0, {heads, own}));
    at += own;
  }
  return to_matrices ? at::cat(parts, 0) : at::cat(parts, 1).flatten(0, 1);
}

// (rows, ...) with `rotary` rows of each group reordered: pairs to halves, or back.
at::Tensor reordered(const StoredForm& form, const at::Tensor& rows, bool to_halves) {
  const at::Tensor groups = rows.unflatten(0, {-1, form.group});
  const at::Tensor turning = groups.narrow(1, form.turns_from, form.rotary);
  // Pairs as (half, 2), halves as (2, half): the one is the other transposed.
  const std::int64_t half = form.rotary / 2, behind = form.turns_from + form.rotary;
  const at::Tensor other = turning.unflatten(1, to_halves ? Shape{half, 2} : Shape{2, half}).transpose(1, 2).flatten(1, 2);
  return at::cat({groups.narrow(1, 0, form.turns_from), other, groups.narrow(1, behind, form.group - behind)}, 1).flatten(0, 1);
}

// The elements of a parameter that is one tensor in files in our order, or back.
at::Tensor turned(const StoredForm& form, const at::Tensor& tensor, bool to_ours) {
  switch (form.layout) {
    case StoredLayout::Transposed:
      return tensor.t();
    case StoredLayout::Interleaved:
      return tensor.unflatten(-1, to_ours ? Shape{-1, 2} : Shape{2, -1}).transpose(-1, -2).flatten(-2);
    case StoredLayout::ByHead:
      return in_other_order(form.of_head, tensor, to_ours);
    case StoredLayout::RotaryPairs:
      return reordered(form, tensor, to_ours);
    default:
      return tensor;
  }
}

}  // namespace

std::vector<StoredForm> stored_forms(const Tensor& parameter, const StoredModel& model) {
  const std::string& model_type = model.type;
  if (model_type == "gpt2" && is_of_conv1d(parameter.name)) return {plain(parameter, StoredLayout::Transposed)};
  const bool gate_up = is_gate_up(parameter.name);
  if (model_type == "gpt_oss" && (gate_up || parameter.name.ends_with(".experts.gate_up_proj_bias")))
    return {plain(parameter, StoredLayout::Interleaved)};
  if (const std::int64_t group = rows_of_group(parameter.name, model); group > 0) {
    StoredForm form = plain(parameter, StoredLayout::RotaryPairs);
    form.group = group, form.rotary = model.latent.rotary;
    form.turns_from = parameter.name.find(kIndexer) != parameter.name.npos ? 0 : group - form.rotary;
    return {form};
  }
  if (const Shape rows = rows_by_head(parameter.name, model); !rows.empty()) {
    StoredForm form = plain(parameter, StoredLayout::ByHead);
    form.of_head = rows;
    return {form};
  }
  constexpr std::string_view kConvolution = ".conv1d.weight";
  if (model_type == "kimi_linear" && parameter.name.ends_with(kConvolution)) {
    StoredForm form{StoredLayout::Rows, {}};
    const std::string base = parameter.name.substr(0, parameter.name.size() - kConvolution.size());
    Shape rows = whole_shape(parameter);
    rows[0] /= 3;
    for (const char* one : {".q_conv1d.weight", ".k_conv1d.weight", ".v_conv1d.weight"}) form.parts.push_back({base + one, rows});
    return {form};
  }
  const StoredForm whole = plain(parameter, StoredLayout::Whole);
  if (model_type == "gpt_oss") return {whole};
  std::vector<StoredForm> forms;
  if (gate_up || is_up(parameter.name) || is_down(parameter.name))
    forms.push_back(form_of_experts(parameter, is_among(kLikeMixtral, model_type) ? kMixtralExperts : kQwenExperts));
  else
    forms.push_back(whole);
  for (StoredPart& part : forms[0].parts) part.name = renamed(part.name, model_type);
  forms.push_back(whole);
  return forms;
}

at::Tensor whole_of_parts(const StoredForm& form, const std::vector<at::Tensor>& parts) {
  if (form.layout == StoredLayout::Down) return at::stack(parts);
  if (form.layout == StoredLayout::Rows) return at::cat(parts);
  if (form.layout != StoredLayout::GateUp) return turned(form, parts[0], true).contiguous();
  std::vector<at::Tensor> experts;
  for (std::size_t k = 0; k + 1 < parts.size(); k += 2) experts.push_back(at::cat({parts[k], parts[k + 1]}));
  return at::stack(experts);
}

at::Tensor part_of_whole(const StoredForm& form, const at::Tensor& whole, std::size_t k) {
  const auto index = static_cast<std::int64_t>(k);
  if (form.layout == StoredLayout::Down) return whole[index].contiguous();
  if (form.layout == StoredLayout::Rows) return whole.chunk(std::ssize(form.parts))[k].contiguous();
  if (form.layout != StoredLayout::GateUp) return turned(form, whole, false).contiguous();
  const std::int64_t width = whole.size(1) / 2;
  return whole[index / 2].narrow(0, index % 2 * width, width).contiguous();
}

}  // namespace panpipe::exec
