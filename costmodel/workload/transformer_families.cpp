// Families of transformers that scenarios name: their traits, and the names of their published weights.
#include "costmodel/workload/transformer.hpp"
#include "costmodel/workload/transformer_names.hpp"

namespace panpipe {

static TransformerTraits biased(TransformerTraits traits) {
  traits.query_bias = traits.output_bias = traits.mlp_bias = true;
  return traits;
}

const FamilyTraits& family_traits() {
  static const FamilyTraits all = [] {
    FamilyTraits f;
    f.gpt = biased({.names = &kGptNames, .projections = FusedProjections::InTurn, .scaled_residual_init = true});
    f.bert = biased({.names = &kBertNames,
                     .epsilon = 1e-12,
                     .form = BlockForm::PostNorm,
                     .embedding_norm = true,
                     .causal = false,
                     .activation = Activation::Gelu});
    f.vit = biased({.names = &kVitNames, .epsilon = 1e-6, .causal = false, .activation = Activation::Gelu});
    f.phi = biased({.names = &kPhiNames,
                    .form = BlockForm::Parallel,
                    .positions = Positions::Rotary,
                    .head_bias = true,
                    .query_key_norm_kind = NormKind::Layer});
    f.gpt_neox = biased({.names = &kGptNeoxNames,
                         .form = BlockForm::ParallelTwoNorms,
                         .positions = Positions::Rotary,
                         .projections = FusedProjections::ByHead,
                         .activation = Activation::Gelu});
    f.opt = {.names = &kOptNames, .extra_positions = 2, .activation = Activation::Relu};
    f.bloom = biased(
        {.names = &kBloomNames, .positions = Positions::Alibi, .embedding_norm = true, .projections = FusedProjections::ByHead});
    f.falcon = {.names = &kFalconNames,
                .form = BlockForm::Parallel,
                .positions = Positions::Rotary,
                .projections = FusedProjections::ByHead,
                .activation = Activation::Gelu};
    f.llama = {.names = &kLlamaNames,
               .norm = NormKind::Rms,
               .positions = Positions::Rotary,
               .activation = Activation::Silu,
               .gated = true};
    // Llama's layers with other modules.
    f.gemma2 = f.phi3 = f.experts = f.qwen2_experts = f.gpt_oss = f.olmo2 = f.squared_relu = f.llama;
    f.gemma2.names = &kGemma2Names;
    f.gemma2.form = BlockForm::Sandwich;
    f.gemma2.activation = Activation::GeluTanh;
    f.phi3.names = &kPhi3Names;
    f.phi3.projections = FusedProjections::InTurn;
    f.phi3.fused_gate = true;
    f.experts.names = &kExpertsNames;
    f.qwen2_experts.names = &kQwen2ExpertsNames;
    f.gpt_oss.names = &kGptOssNames;
    f.olmo2.names = &kOlmo2Names;
    f.squared_relu.activation = Activation::ReluSquared;
    f.squared_relu.gated = false;
    add_recent_families(f);
    return f;
  }();
  return all;
}

const ModuleNames& falcon_two_norm_names() { return kFalconTwoNormNames; }

}  // namespace panpipe
