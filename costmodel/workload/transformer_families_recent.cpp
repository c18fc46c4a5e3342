// Families of 2025 and 2026, most of them Llama's layers with other modules.
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

template <class Change>
ModuleNames renamed(const TransformerTraits& other, Change change) {
  ModuleNames names = *other.names;
  change(names);
  return names;
}

// Gate, up and down in another folder.
void move_mlp(ModuleNames& n, std::string_view gate, std::string_view up, std::string_view down, std::string_view activation) {
  n.gate = gate, n.up = up, n.down = down, n.activation = activation;
}

void add_dense(FamilyTraits& f) {
  static const ModuleNames glm = renamed(f.llama, [](ModuleNames& n) {
    n.gate = n.up = {};
    n.gate_up = ".mlp.gate_up_proj";
    n.activation = ".mlp.activation_fn";
  });
  f.glm = f.llama;
  f.glm.names = &glm;
  f.glm.fused_gate = true;

  static const ModuleNames glm4 = renamed(f.glm, [](ModuleNames& n) {
    n.attention_after_norm = ".post_self_attn_layernorm";
    n.mlp_after_norm = ".post_mlp_layernorm";
  });
  f.glm4 = f.glm;
  f.glm4.names = &glm4;
  f.glm4.form = BlockForm::Sandwich;

  static const ModuleNames hunyuan = renamed(f.llama, [](ModuleNames& n) {
    n.query_norm = ".self_attn.query_layernorm";
    n.key_norm = ".self_attn.key_layernorm";
  });
  f.hunyuan = f.llama;
  f.hunyuan.names = &hunyuan;
  f.hunyuan.query_key_norm = QueryKeyNorm::PerHead;

  f.cohere = f.stablelm = f.llama;
  f.cohere.form = BlockForm::Parallel;
  f.cohere.norm = NormKind::LayerWithoutBias;
  f.stablelm.norm = NormKind::Layer;

  static const ModuleNames starcoder2 =
      renamed(f.llama, [](ModuleNames& n) { move_mlp(n, {}, ".mlp.c_fc", ".mlp.c_proj", ".mlp.act"); });
  f.starcoder2 = f.stablelm;
  f.starcoder2.names = &starcoder2;
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
  static const ModuleNames hunyuan = renamed(f.hunyuan, [](ModuleNames& n) {
    n.router = ".mlp.gate.wg";
    n.experts = ".mlp.experts";
    n.shared = ".mlp.shared_mlp";
  });
  f.hunyuan_experts = f.hunyuan;
  f.hunyuan_experts.names = &hunyuan;

  static const ModuleNames granite = renamed(f.llama, [](ModuleNames& n) {
    n.router = ".block_sparse_moe.router";
    n.experts = ".block_sparse_moe.experts";
    n.shared = ".shared_mlp";
    n.linear = ".mamba";
  });
  f.granite_experts = f.granite_hybrid = f.llama;
  f.granite_experts.names = f.granite_hybrid.names = &granite;

  f.phi_experts = f.gpt_oss;  // its router's name
  f.phi_experts.norm = NormKind::Layer;

  static const ModuleNames llama4 = renamed(f.llama, [](ModuleNames& n) {
    move_mlp(n, ".feed_forward.gate_proj", ".feed_forward.up_proj", ".feed_forward.down_proj", ".feed_forward.activation_fn");
    n.router = ".feed_forward.router";
    n.experts = ".feed_forward.experts";
    n.shared = ".feed_forward.shared_expert";
  });
  f.llama4 = f.llama;
  f.llama4.names = &llama4;

  static const ModuleNames afmoe = renamed(f.experts, [](ModuleNames& n) {
    n.attention_after_norm = ".post_attention_layernorm";
    n.mlp_norm = ".pre_mlp_layernorm";
    n.mlp_after_norm = ".post_mlp_layernorm";
    n.output_gate = ".self_attn.gate_proj";
    n.router = ".mlp.router.gate";
  });
  f.afmoe = f.experts;
  f.afmoe.names = &afmoe;
  f.afmoe.form = BlockForm::Sandwich;
  f.afmoe.query_key_norm = QueryKeyNorm::PerHead;
  f.afmoe.output_gate = OutputGate::Own;

  static const ModuleNames flex_olmo = renamed(f.olmo2, [](ModuleNames& n) {
    n.router = ".mlp.gate";
    n.experts = ".mlp.experts";
  });
  f.flex_olmo = f.olmo2;
  f.flex_olmo.names = &flex_olmo;
}

void add_hybrids(FamilyTraits& f) {
  static const ModuleNames qwen3_next = renamed(f.qwen2_experts, [](ModuleNames& n) { n.linear = ".linear_attn"; });
  f.qwen3_next = f.llama;
  f.qwen3_next.names = &qwen3_next;
  f.qwen3_next.zero_centered_norms = true;
  f.qwen3_next.query_key_norm = QueryKeyNorm::PerHead;
  f.qwen3_next.output_gate = OutputGate::WithQuery;
  f.qwen3_next.linear.kind = LinearKind::GatedDelta;
  f.qwen3_5 = f.qwen3_next;
  f.qwen3_5.linear.one_product = false;

  static const ModuleNames in_attention = renamed(f.experts, [](ModuleNames& n) { n.linear = ".self_attn"; });
  f.minimax = f.kimi_linear = f.llama;
  f.minimax.names = f.kimi_linear.names = &in_attention;
  f.minimax.form = BlockForm::NormedStream;
  f.minimax.linear = {.kind = LinearKind::Lightning, .chunk = 256, .whole_norm = true, .epsilon = 1e-6};
  f.kimi_linear.positions = Positions::None;
  f.kimi_linear.linear.kind = LinearKind::ChannelDelta;

  f.granite_hybrid.linear.kind = LinearKind::StateSpace;
  static const ModuleNames bamba = renamed(f.llama4, [](ModuleNames& n) {
    n.mlp_norm = ".pre_ff_layernorm";
    n.final_norm = "model.final_layernorm";
    n.linear = ".mamba";
  });
  f.bamba = f.llama;
  f.bamba.names = &bamba;
  f.bamba.linear = f.granite_hybrid.linear;

  static constexpr ModuleNames kNemotronH = {.embedding = "backbone.embeddings",
                                             .layer = "backbone.layers.",
                                             .attention_norm = ".norm",
                                             .mlp_norm = ".norm",
                                             .core = ".mixer",
                                             .query = ".mixer.q_proj",
                                             .key = ".mixer.k_proj",
                                             .value = ".mixer.v_proj",
                                             .output = ".mixer.o_proj",
                                             .linear = ".mixer",
                                             .up = ".mixer.up_proj",
                                             .activation = ".mixer.act_fn",
                                             .down = ".mixer.down_proj",
                                             .router = ".mixer.gate",
                                             .experts = ".mixer.experts",
                                             .shared = ".mixer.shared_experts",
                                             .final_norm = "backbone.norm_f",
                                             .head = "lm_head"};
  f.nemotron_h = f.squared_relu;
  f.nemotron_h.names = &kNemotronH;
  f.nemotron_h.positions = Positions::None;
  f.nemotron_h.linear.kind = LinearKind::StateSpace;

  f.mamba = f.mamba2 = f.nemotron_h;
  f.mamba.linear.kind = LinearKind::SelectiveScan;
  f.jamba = f.bamba;
  f.jamba.positions = Positions::None;
  f.jamba.linear.kind = LinearKind::SelectiveScan;

  static const ModuleNames lfm2 = renamed(f.llama4, [](ModuleNames& n) {
    n.attention_norm = ".operator_norm";
    n.mlp_norm = ".ffn_norm";
    n.output = ".self_attn.out_proj";
    n.query_norm = ".self_attn.q_layernorm";
    n.key_norm = ".self_attn.k_layernorm";
    move_mlp(n, ".feed_forward.w1", ".feed_forward.w3", ".feed_forward.w2", ".feed_forward");
    n.router = ".feed_forward.gate";
    n.final_norm = "model.embedding_norm";
    n.linear = ".conv";
  });
  f.lfm2 = f.llama;
  f.lfm2.names = &lfm2;
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
