// Families of 2025 and 2026, most of them Llama's layers with other modules.
#include "costmodel/workload/transformer.hpp"
#include "costmodel/workload/transformer_names.hpp"

namespace panpipe {
namespace {

void add_dense(FamilyTraits& f) {
  f.glm = f.llama;
  f.glm.names = &kGlmNames;
  f.glm.fused_gate = true;

  f.glm4 = f.glm;
  f.glm4.names = &kGlm4Names;
  f.glm4.form = BlockForm::Sandwich;

  f.hunyuan = f.llama;
  f.hunyuan.names = &kHunyuanNames;
  f.hunyuan.query_key_norm = QueryKeyNorm::PerHead;

  f.cohere = f.stablelm = f.llama;
  f.cohere.form = BlockForm::Parallel;
  f.cohere.norm = NormKind::LayerWithoutBias;
  f.stablelm.norm = NormKind::Layer;

  f.starcoder2 = f.stablelm;
  f.starcoder2.names = &kStarcoder2Names;
  f.starcoder2.gated = false;
  f.starcoder2.activation = Activation::GeluTanh;

  f.gemma3n = f.gemma2;
  f.gemma3n.query_key_norm = QueryKeyNorm::PerHead;
  f.gemma3n.value_norm = true;
  f.gemma3n.scaled_embedding = true;
  f.gemma3n.attention_scale = 1;
  f.nemotron = f.squared_relu;
  f.nemotron.norm = NormKind::Layer;
}

void add_experts(FamilyTraits& f) {
  f.hunyuan_experts = f.hunyuan;
  f.hunyuan_experts.names = &kHunyuanExpertsNames;

  f.granite_experts = f.granite_hybrid = f.llama;
  f.granite_experts.names = f.granite_hybrid.names = &kGraniteExpertsNames;

  f.phi_experts = f.gpt_oss;  // its router's name
  f.phi_experts.norm = NormKind::Layer;

  f.llama4 = f.llama;
  f.llama4.names = &kLlama4Names;

  f.afmoe = f.experts;
  f.afmoe.names = &kAfmoeNames;
  f.afmoe.form = BlockForm::Sandwich;
  f.afmoe.query_key_norm = QueryKeyNorm::PerHead;
  f.afmoe.output_gate = OutputGate::Own;

  f.flex_olmo = f.olmo2;
  f.flex_olmo.names = &kFlexOlmoNames;
}

void add_hybrids(FamilyTraits& f) {
  f.qwen3_next = f.llama;
  f.qwen3_next.names = &kQwen3NextNames;
  f.qwen3_next.zero_centered_norms = true;
  f.qwen3_next.query_key_norm = QueryKeyNorm::PerHead;
  f.qwen3_next.output_gate = OutputGate::WithQuery;
  f.qwen3_next.linear.kind = LinearKind::GatedDelta;
  f.qwen3_5 = f.qwen3_next;
  f.qwen3_5.linear.one_product = false;

  f.minimax = f.kimi_linear = f.llama;
  f.minimax.names = f.kimi_linear.names = &kInAttentionNames;
  f.minimax.form = BlockForm::NormedStream;
  f.minimax.linear = {.kind = LinearKind::Lightning, .chunk = 256, .whole_norm = true, .epsilon = 1e-6};
  f.kimi_linear.positions = Positions::None;
  f.kimi_linear.linear.kind = LinearKind::ChannelDelta;

  f.granite_hybrid.linear.kind = LinearKind::StateSpace;
  f.bamba = f.llama;
  f.bamba.names = &kBambaNames;
  f.bamba.linear = f.granite_hybrid.linear;

  f.nemotron_h = f.squared_relu;
  f.nemotron_h.names = &kNemotronHNames;
  f.nemotron_h.positions = Positions::None;
  f.nemotron_h.linear.kind = LinearKind::StateSpace;

  f.mamba = f.mamba2 = f.nemotron_h;
  f.mamba.linear.kind = LinearKind::SelectiveScan;
  f.jamba = f.bamba;
  f.jamba.positions = Positions::None;
  f.jamba.linear.kind = LinearKind::SelectiveScan;

  f.lfm2 = f.llama;
  f.lfm2.names = &kLfm2Names;
  f.lfm2.query_key_norm = QueryKeyNorm::PerHead;
  f.lfm2.linear = {.kind = LinearKind::ShortConvolution, .norm = false};
}

}  // namespace

void add_recent_families(FamilyTraits& f) {
  add_dense(f);
  add_experts(f);
  add_hybrids(f);
}

}  // namespace panpipe
