// Do the built-in models have the published numbers of parameters and FLOPs?
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

Workload make(const std::string& model, int microbatch = 1) {
  WorkloadRequest request;
  request.model = model;
  return make_workload(request, {.degrees = {.micro = microbatch}});
}

Workload make_gpt(int layers, int hidden, int heads, int vocabulary, int sequence, int microbatch = 1) {
  WorkloadRequest request;
  request.model = "gpt";
  request.layers = layers;
  request.hidden = hidden;
  request.heads = heads;
  request.vocabulary = vocabulary;
  request.sequence = sequence;
  return make_workload(request, {.degrees = {.micro = microbatch}});
}

TEST(Models, AllBuiltInGraphsKeepTheInvariants) {
  for (const std::string& name : model_names()) {
    if (name == "gpt" || name == "llama" || name == "bert" || name == "vit" || name == "mllm" || name == "unet") continue;
    const Workload workload = make(name, 2);
    ASSERT_TRUE(workload.graph) << name;
    EXPECT_NO_THROW(workload.graph->check()) << name;
    EXPECT_EQ(workload.parameters, workload.graph->parameter_count()) << name;
  }
}

// V h + P h token and position embedding; per layer 12 h^2 + 13 h (four products with biases, two norms); final norm 2 h.
//   gpt2: 50257 x 768 + 1024 x 768 + 12 (12 x 768^2 + 13 x 768) + 2 x 768 = 124,439,808
// The four totals are those of the checkpoints that Radford et al. 2019 released (Hugging Face gpt2, -medium, -large, -xl).
TEST(Models, Gpt2Parameters) {
  EXPECT_EQ(make("gpt2").parameters, 124'439'808);
  EXPECT_EQ(make("gpt2-medium").parameters, 354'823'168);
  EXPECT_EQ(make("gpt2-large").parameters, 774'030'080);
  EXPECT_EQ(make("gpt2-xl").parameters, 1'557'611'200);
}

// Narayanan et al. 2021 (arXiv 2104.04473) eq. 2: P = 12 L h^2 (1 + 13/(12h) + (V+s)/(12 L h)); the final norm's 2 h come on top.
//   175B: 12 x 96 x 12288^2 = 173,946,175,488; 13 L h = 15,335,424; (51200 + 2048) h = 654,311,424; 2 h = 24,576.
TEST(Models, Gpt3Parameters) {
  EXPECT_EQ(make("gpt3-175b").parameters, 173'946'175'488 + 15'335'424 + 654'311'424 + 24'576);
  struct Row {
    const char* name;
    double billions;  // as Brown et al. 2020, table 2.1, round them
    double tolerance;
  };
  // 125M, 350M, 760M, 1.3B, 2.7B, 6.7B, 13B, 175B.
  for (const Row& row :
       {Row{"gpt3-125m", 0.125, 0.02}, Row{"gpt3-350m", 0.350, 0.03}, Row{"gpt3-760m", 0.760, 0.02}, Row{"gpt3-1.3b", 1.3, 0.02},
        Row{"gpt3-2.7b", 2.7, 0.02}, Row{"gpt3-6.7b", 6.7, 0.02}, Row{"gpt3-13b", 13.0, 0.02}, Row{"gpt3-175b", 175.0, 0.01}})
    EXPECT_NEAR(static_cast<double>(make(row.name).parameters) / 1e9, row.billions, row.tolerance * row.billions) << row.name;
}

// 2 V h (embedding and head) + L (2 h^2 + 2 h h_kv + 3 h f + 2 h) + h; h_kv = h kv/heads. The totals of the released
// checkpoints (Hugging Face meta-llama/Llama-2-*).
//   7b: 2 x 32000 x 4096 + 32 (4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096) + 4096 = 6,738,415,616
TEST(Models, Llama2Parameters) {
  EXPECT_EQ(make("llama2-7b").parameters, 6'738'415'616);
  EXPECT_EQ(make("llama2-13b").parameters, 13'015'864'320);
  EXPECT_EQ(make("llama2-70b").parameters, 68'976'648'192);
}

// Encoder and pooler are 109,482,240 (base) and 335,141,888 (large), as Hugging Face's BertModel counts. On top come the two
// heads of pre-training: transform h^2 + h, its norm 2 h, the decoder's bias V (its weight is the embedding), next sentence
// 2 h + 2. base: 589,824 + 768 + 1,536 + 30,522 + 1,538 = 624,188; large: 1,048,576 + 1,024 + 2,048 + 30,522 + 2,050.
TEST(Models, BertParameters) {
  EXPECT_EQ(make("bert-base").parameters, 109'482'240 + 624'188);
  EXPECT_EQ(make("bert-large").parameters, 335'141'888 + 1'084'220);
}

// torchvision's vit_l_16 and vit_h_14 at 224 pixels with 1000 classes: 304,326,632 and 632,045,800. ViT-g/14 has no such
// reference; with h = 1408, f = 6144, 257 tokens: layer 4 h^2 + 4 h + 2 h f + f + h + 4 h = 25,250,176; patches 588 h + h;
// class token h; positions 257 h; norm 2 h; classes 1000 (h + 1).
//   40 x 25,250,176 + 1408 x (588 + 1 + 1 + 257 + 2 + 1000) + 1000 = 1,012,611,432 (1.01 billion: Zhai et al. 2021, table 2).
TEST(Models, VitParameters) {
  EXPECT_EQ(make("vit-l-16").parameters, 304'326'632);
  EXPECT_EQ(make("vit-h-14").parameters, 632'045'800);
  EXPECT_EQ(make("vit-g-14").parameters, 40LL * 25'250'176 + 1408LL * (588 + 1 + 1 + 257 + 2 + 1000) + 1000);
}

// The released U-Net (stabilityai/stable-diffusion-xl-base-1.0, folder unet) has 2,567,463,684 parameters; Podell et al.
// 2023, table 1, say 2.6 billion.
// Language model L (2 h^2 + 2 h 1024 + 3 h 18944 + 2 h) + 2 x 152064 h + h; encoder L' (12 h'^2 + 13 h') + 588 h' + h' + 4096 h'
// (patches of 14 x 14 x 3, 64 x 64 positions); projector 2 h' + (4 h')^2 + 4 h' + 4 h' h + h. Printed (arXiv 2510.27257, table
// 2): 1.7B + 13.2B and 5.6B + 23.2B or 24.7B.
TEST(Models, MultimodalParameters) {
  const auto encoder = [](std::int64_t layers, std::int64_t h, std::int64_t width) {
    return layers * (12 * h * h + 13 * h) + (588 + 1 + 4096) * h + 2 * h + 16 * h * h + 4 * h + 4 * h * width + width;
  };
  const auto language = [](std::int64_t layers, std::int64_t h) {
    return layers * (2 * h * h + 2 * h * 1024 + 3 * h * 18944 + 2 * h) + 2 * 152064 * h + h;
  };
  EXPECT_EQ(make("mllm-14.9b").parameters, encoder(32, 2048, 5120) + language(33, 5120));
  EXPECT_EQ(make("mllm-28.8b").parameters, encoder(26, 4096, 7168) + language(40, 7168));
  EXPECT_EQ(make("mllm-30.3b").parameters, encoder(26, 4096, 7168) + language(43, 7168));
  EXPECT_NEAR(static_cast<double>(encoder(32, 2048, 5120)) / 1e9, 1.7, 0.05);
  EXPECT_NEAR(static_cast<double>(language(33, 5120)) / 1e9, 13.2, 0.05);
  EXPECT_NEAR(static_cast<double>(encoder(26, 4096, 7168)) / 1e9, 5.6, 0.05);
  EXPECT_NEAR(static_cast<double>(language(40, 7168)) / 1e9, 23.2, 0.05);
  EXPECT_NEAR(static_cast<double>(language(43, 7168)) / 1e9, 24.7, 0.1);
}

// 896 / 14 = 64 patches a side, 4096 tokens in the encoder; joined by four, 1024 of the language model's 4096.
TEST(Models, EncoderAndLanguageModelHaveLengthsOfTheirOwn) {
  const Workload workload = make("mllm-14.9b", 2);
  const OperatorGraph& graph = *workload.graph;
  const auto unit_named = [&](const std::string& name) {
    for (std::size_t u = 0; u < graph.units.size(); ++u)
      if (graph.units[u].name == name) return static_cast<int>(u);
    return -1;
  };
  const auto last_shape = [&](const std::string& name) {
    Shape shape;
    for (const Operator& op : graph.operators)
      if (op.unit == unit_named(name)) shape = graph.tensors[op.outputs.front()].shape;
    return shape;
  };
  EXPECT_EQ(last_shape("vision.h.31.mlp"), (Shape{2, 4096, 2048}));
  EXPECT_EQ(last_shape("projector"), (Shape{2, 1024, 5120}));
  EXPECT_EQ(last_shape("embedding"), (Shape{2, 4096, 5120}));
  EXPECT_EQ(last_shape("h.32.mlp"), (Shape{2, 4096, 5120}));
  EXPECT_LT(unit_named("projector"), unit_named("embedding"));
}

TEST(Models, MultimodalDimensionsThatDoNotFitAreRefusedInWords) {
  const auto refusal = [](int image, int sequence) -> std::string {
    WorkloadRequest request;
    request.model = "mllm-14.9b";
    request.image = image;
    request.sequence = sequence;
    return test::fault_of([&] { make_workload(request, {}); });
  };
  EXPECT_EQ(refusal(896, 1024), "error: an image of mllm-14.9b makes 1024 tokens, which leaves no text in a sequence of 1024");
  EXPECT_EQ(refusal(14 * 7, 1024), "error: the projector of mllm-14.9b joins 2 x 2 patches, and an image has 7 of them a side");
  EXPECT_EQ(refusal(900, 4096), "error: patches of 14 pixels do not divide the 900 pixels of mllm-14.9b");
}

TEST(Models, SdxlParameters) { EXPECT_EQ(make("sdxl-unet").parameters, 2'567'463'684); }

// Narayanan et al. 2021, eq. 3, with full recompute: 96 B s L h^2 (1 + s/(6h) + V/(16 L h)). Without recompute the layers
// take 3/4 of that, the head the same: 72 B s L h^2 (1 + s/(6h)) + 6 B s h V.
TEST(Models, GptFlopsFollowMegatronsFormula) {
  for (const auto& [L, h, a, V, s] : {std::tuple{12, 768, 12, 50257, 1024}, std::tuple{96, 12288, 96, 51200, 2048},
                                      std::tuple{2, 64, 4, 100, 32}, std::tuple{5, 1536, 16, 32000, 4096}}) {
    const double H = h, S = s;
    const double expected = 72.0 * S * L * H * H * (1.0 + S / (6.0 * H)) + 6.0 * S * H * V;
    EXPECT_DOUBLE_EQ(make_gpt(L, h, a, V, s).model_flops.base(), expected);
    EXPECT_DOUBLE_EQ(make_gpt(L, h, a, V, s, 4).model_flops.base(), expected) << "per sample, whatever the microbatch";
  }
}

// SwiGLU has three products of h f: per token and layer 2 (2 h^2 + 2 h h_kv + 3 h f) + 4 s h forward; head 2 h V.
TEST(Models, LlamaFlops) {
  const double h = 8192, kv = 1024, f = 28672, s = 4096, L = 80, V = 32000;
  const double forward = s * (L * (2 * (2 * h * h + 2 * h * kv + 3 * h * f) + 4 * s * h) + 2 * h * V);
  EXPECT_DOUBLE_EQ(make("llama2-70b").model_flops.base(), 3 * forward);
}

// Multiply-adds of a forward pass at 224 pixels as torchvision's model pages state them, scores included: ViT-L/16 61.55 G,
// ViT-H/14 167.29 G (half of our FLOPs).
//   L/16: 197 tokens x 24 x 12 x 1024^2 = 59.492 G; scores 2 x 197^2 x 1024 x 24 = 1.908 G; patches 196 x 768 x 1024 = 0.154 G;
//   classes 0.001 G; together 61.555 G.
TEST(Models, VitFlops) {
  EXPECT_NEAR(make("vit-l-16").model_flops.base() / 6e9, 61.555, 0.001);
  EXPECT_NEAR(make("vit-h-14").model_flops.base() / 6e9, 167.295, 0.001);
}

// Self-attention of the U-Net on 128 x 128 latents: 10 blocks of 64 x 64 = 4096 tokens with 640 channels and 60 blocks of 1024
// tokens with 1280; scores take 4 T^2 C, and 4 T 77 C against the 77 tokens of text.
TEST(Models, SdxlAttentionWork) {
  const Workload workload = make("sdxl-unet");
  double scores = 0;
  for (const OperatorWork& work : count_work(*workload.graph))
    if (work.kind == OperatorClass::Attention) scores += work.forward.flops.base();
  const double wide = 4.0 * 4096 * 640 * (4096 + 77), narrow = 4.0 * 1024 * 1280 * (1024 + 77);
  EXPECT_DOUBLE_EQ(scores, 10 * wide + 60 * narrow);
}

TEST(Models, TiedHeadIsOneParameter) {
  const Workload tied = make("gpt2");
  int heads = 0;
  for (const Tensor& tensor : tied.graph->tensors)
    if (tensor.name == "lm_head.weight") {
      ++heads;
      ASSERT_GE(tensor.tied_to, 0);
      EXPECT_EQ(tied.graph->tensors[tensor.tied_to].name, "transformer.wte.weight");
    }
  EXPECT_EQ(heads, 1);

  WorkloadRequest request;
  request.model = "gpt2";
  request.tied_embedding = false;
  EXPECT_EQ(make_workload(request, {}).parameters, tied.parameters + 50257 * 768);
}

TEST(Models, ParametersKeepTheFrameworksNames) {
  const auto has = [](const Workload& workload, const std::string& name, const Shape& shape) {
    for (const Tensor& tensor : workload.graph->tensors)
      if (tensor.name == name && tensor.role == TensorRole::Parameter) return tensor.shape == shape;
    return false;
  };
  EXPECT_TRUE(has(make("gpt2"), "transformer.h.11.attn.c_attn.weight", {2304, 768}));
  EXPECT_TRUE(has(make("gpt2"), "transformer.wpe.weight", {1024, 768}));
  EXPECT_TRUE(has(make("llama2-70b"), "model.layers.79.self_attn.k_proj.weight", {1024, 8192}));
  EXPECT_TRUE(has(make("bert-large"), "bert.encoder.layer.23.attention.output.LayerNorm.bias", {1024}));
  EXPECT_TRUE(has(make("vit-h-14"), "vit.embeddings.patch_embeddings.projection.weight", {1280, 3, 14, 14}));
  EXPECT_TRUE(has(make("sdxl-unet"), "up_blocks.0.attentions.2.transformer_blocks.9.attn2.to_k.weight", {1280, 2048}));
}

TEST(Models, UnitsOfATransformer) {
  const Workload workload = make("gpt2");
  const auto& units = workload.graph->units;
  ASSERT_EQ(units.size(), 2U + 2 * 12);
  EXPECT_EQ(units.front().name, "embedding");
  EXPECT_EQ(units.back().name, "head");
  EXPECT_EQ(units[1].name, "h.0.attention");
  EXPECT_EQ(units[2].name, "h.0.mlp");
  EXPECT_EQ(units[24].block, "h.11");
  EXPECT_EQ(units[24].layer, 11);
  EXPECT_EQ(units.back().block, "");
}

// Skip connections of the U-Net: every tensor of the way down is read once more on the way up, so that units that lie far
// apart share tensors. conv_in, 2 + 1, 2 + 1, 2 blocks and downsamplers = 9.
TEST(Models, UnetSkipsSpanUnits) {
  const Workload workload = make("sdxl-unet");
  const OperatorGraph& graph = *workload.graph;
  int skips = 0;
  for (const Operator& op : graph.operators)
    if (op.target == "aten::cat" && op.module.starts_with("up_blocks")) {
      const int skip = std::get<TensorList>(op.arguments[0]).tensors[1];
      const int from = graph.operators[graph.tensors[skip].producer].unit;
      EXPECT_LT(from + 1, op.unit);
      ++skips;
    }
  EXPECT_EQ(skips, 9);
}

}  // namespace
}  // namespace panpipe
