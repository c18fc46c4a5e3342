#include "costmodel/workload/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.hpp"
#include "costmodel/degrees/check_degrees.hpp"
#include "costmodel/workload/bounds.hpp"

namespace panpipe {
namespace {

using D = ModelDimensions;

const ModelFamily kGpt = {"gpt",
                          {"layers", "hidden", "heads", "head_size", "ffn", "vocabulary", "sequence", "tied_embedding"},
                          {"layers", "hidden", "heads"},
                          &family_traits().gpt,
                          build_language_model};
const ModelFamily kLlama = {
    "llama",
    {"layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "vocabulary", "sequence", "tied_embedding"},
    {"layers", "hidden", "heads", "ffn"},
    &family_traits().llama,
    build_language_model};
const ModelFamily kBert = {
    "bert", {"layers", "hidden", "heads", "ffn", "vocabulary", "sequence"}, {"layers", "hidden", "heads"}, nullptr, build_bert};
const ModelFamily kVit = {
    "vit", {"layers", "hidden", "heads", "ffn", "image", "patch", "classes"}, {"layers", "hidden", "heads"}, nullptr, build_vit};
const ModelFamily kUnet = {"unet", {"layers", "hidden", "heads", "image", "sequence"}, {"layers", "hidden"}, nullptr, build_unet};

const ModelFamily kMllm = {"mllm",
                           {"layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "vocabulary", "sequence",
                            "tied_embedding", "image", "patch", "vision_layers", "vision_hidden", "vision_heads", "vision_ffn"},
                           {"layers", "hidden", "heads", "ffn", "vision_layers", "vision_hidden", "vision_heads"},
                           nullptr,
                           build_mllm};

// With learned positions, and a head that has the embedding's weights.
D learned(int layers, int hidden, int heads, int vocabulary, int tokens) {
  D d{layers, hidden, heads, 0, 0, vocabulary, tokens};
  d.positions = tokens;
  d.tied_embedding = true;
  return d;
}
D gpt2(int layers, int hidden, int heads) { return learned(layers, hidden, heads, 50257, 1024); }
// Megatron trains GPT-3's sizes with GPT-2's 50257 tokens padded to 51200 and 2048 positions.
D gpt3(int layers, int hidden, int heads) { return learned(layers, hidden, heads, 51200, 2048); }
D bert(int layers, int hidden, int heads) { return learned(layers, hidden, heads, 30522, 512); }
D llama2(int layers, int hidden, int heads, int kv_heads, int ffn) { return {layers, hidden, heads, kv_heads, ffn, 32000, 4096}; }

D vit(int layers, int hidden, int heads, int ffn, int patch) {
  return {.layers = layers, .hidden = hidden, .heads = heads, .ffn = ffn, .image = 224, .patch = patch, .classes = 1000};
}

// Text encoders give 77 tokens; latents are an eighth of the 1024-pixel image.
D unet(int layers, int hidden, int heads) {
  return {.layers = layers, .hidden = hidden, .heads = heads, .sequence = 77, .image = 128};
}

// STP's multimodal models: a ViT of `vision_layers` in front of a language model with grouped heads of 128. The printed sizes
// (1.7B and 5.6B for the encoders with their projectors) result from an MLP of four times the width and a projector over 2 x 2
// patches; the images' size is not printed.
D stp_mllm(int vision_layers, int vision_hidden, int layers, int hidden) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = hidden / 128,
          .kv_heads = 8,
          .ffn = 18944,
          .vocabulary = 152064,
          .sequence = 4096,
          .image = 896,
          .patch = 14,
          .vision_layers = vision_layers,
          .vision_hidden = vision_hidden,
          .vision_heads = 16,
          .vision_ffn = 4 * vision_hidden};
}

constexpr std::string_view kStpPaper = "Qi et al. 2025 (arXiv 2510.27257), table 2";
constexpr std::string_view kGpt2Paper = "Radford et al. 2019, table 2; Hugging Face gpt2 configurations";
constexpr std::string_view kGpt3Paper = "Brown et al. 2020 (arXiv 2005.14165), table 2.1";
constexpr std::string_view kLlamaPaper = "Touvron et al. 2023 (arXiv 2307.09288)";
constexpr std::string_view kBertPaper = "Devlin et al. 2018 (arXiv 1810.04805)";
constexpr std::string_view kVitPaper = "Dosovitskiy et al. 2020 (arXiv 2010.11929), table 1";
constexpr std::string_view kScalingVitPaper = "Zhai et al. 2021 (arXiv 2106.04560), table 2";
constexpr std::string_view kSdxlPaper = "Podell et al. 2023 (arXiv 2307.01952), table 1";

int or_default(int given, int fallback) { return given > 0 ? given : fallback; }

void require(bool condition, const std::string& message) {
  if (!condition) throw InputError(message);
}

// Fills in missing dimensions of a family with the usual proportions.
void fill_proportions(const ModelFamily& family, ModelDimensions& d) {
  if (&family == &kUnet) {
    d.heads = or_default(d.heads, std::max(1, d.hidden / 64));  // 64 channels a head, as the published one has
    return;
  }
  d.ffn = or_default(d.ffn, 4 * std::min(d.hidden, 1 << 21));
  if (&family == &kLlama || &family == &kMllm) d.kv_heads = or_default(d.kv_heads, d.heads);
  if (&family == &kMllm) d.vision_ffn = or_default(d.vision_ffn, 4 * std::min(d.vision_hidden, 1 << 21));
  d.positions = std::max(d.positions, d.sequence);
}

void check_vision(const std::string& name, const ModelDimensions& d) {
  require(d.vision_hidden % d.vision_heads == 0,
          fmt::format("{} heads do not divide the hidden size {} of the encoder of {}", d.vision_heads, d.vision_hidden, name));
  const int tokens = image_tokens(d);
  require(d.image / d.patch % 2 == 0,
          fmt::format("the projector of {} joins 2 x 2 patches, and an image has {} of them a side", name, d.image / d.patch));
  require(tokens < d.sequence,
          fmt::format("an image of {} makes {} tokens, which leaves no text in a sequence of {}", name, tokens, d.sequence));
}

void check_sizes(const std::string& name, const ModelDimensions& d) {
  // Far beyond any network, and small enough that no count of elements overflows.
  for (const auto& [key, value, most] :
       {std::tuple("layers", d.layers, kMostLayers), std::tuple("hidden", d.hidden, kMostHidden),
        std::tuple("ffn", d.ffn, 1 << 22), std::tuple("vocabulary", d.vocabulary, kMostVocabulary),
        std::tuple("sequence", d.sequence, kMostTokens), std::tuple("image", d.image, 1 << 14),
        std::tuple("head_size", d.head_size, 1 << 16), std::tuple("classes", d.classes, 1 << 24),
        std::tuple("vision_layers", d.vision_layers, kMostLayers), std::tuple("vision_hidden", d.vision_hidden, kMostHidden),
        std::tuple("vision_ffn", d.vision_ffn, 1 << 22)})
    require(value <= most, fmt::format("'{}' of {} is {}, more than {}", key, name, value, most));
  require(d.head_size > 0 || d.hidden % d.heads == 0,
          fmt::format("{} heads do not divide the hidden size {} of {}", d.heads, d.hidden, name));
}

void check_heads(const std::string& name, const ModelDimensions& d) {
  require(key_value_heads(d) <= d.heads && d.heads % key_value_heads(d) == 0,
          fmt::format("{} key-value heads do not divide the {} heads of {}", d.kv_heads, d.heads, name));
  require(features_of_head(d) % 2 == 0,
          fmt::format("rotary embedding needs an even head size, and {} has {}", name, features_of_head(d)));
}

void check_dimensions(const ModelFamily& family, const std::string& name, const ModelDimensions& d) {
  check_sizes(name, d);
  if (&family == &kLlama || &family == &kMllm) check_heads(name, d);
  if (&family == &kMllm) check_vision(name, d);
  if (&family == &kVit || &family == &kMllm)
    require(d.image % d.patch == 0,
            fmt::format("patches of {} pixels do not divide the {} pixels of {}", d.patch, d.image, name));
  if (&family == &kUnet) {
    require(d.hidden % 32 == 0,
            fmt::format("the hidden size {} of {} is no multiple of the 32 normalization groups", d.hidden, name));
    require(d.image % 4 == 0, fmt::format("the image size {} of {} cannot be halved twice", d.image, name));
  }
}

}  // namespace

const std::vector<BuiltInModel>& built_in_models() {
  // GPT-3's table prints two dimensions that do not fit together: 24 heads of 128 for XL (hidden 2048), and hidden 5140 for
  // 13B (40 heads of 128); 16 heads and 5120 are meant.
  static const std::vector<BuiltInModel> models = {
      {"gpt2", &kGpt, gpt2(12, 768, 12), kGpt2Paper},
      {"gpt2-medium", &kGpt, gpt2(24, 1024, 16), kGpt2Paper},
      {"gpt2-large", &kGpt, gpt2(36, 1280, 20), kGpt2Paper},
      {"gpt2-xl", &kGpt, gpt2(48, 1600, 25), kGpt2Paper},
      {"gpt3-125m", &kGpt, gpt3(12, 768, 12), kGpt3Paper},
      {"gpt3-350m", &kGpt, gpt3(24, 1024, 16), kGpt3Paper},
      {"gpt3-760m", &kGpt, gpt3(24, 1536, 16), kGpt3Paper},
      {"gpt3-1.3b", &kGpt, gpt3(24, 2048, 16), kGpt3Paper},
      {"gpt3-2.7b", &kGpt, gpt3(32, 2560, 32), kGpt3Paper},
      {"gpt3-6.7b", &kGpt, gpt3(32, 4096, 32), kGpt3Paper},
      {"gpt3-13b", &kGpt, gpt3(40, 5120, 40), kGpt3Paper},
      {"gpt3-175b", &kGpt, gpt3(96, 12288, 96), kGpt3Paper},
      {"gpt", &kGpt, {.vocabulary = 51200, .sequence = 1024, .tied_embedding = true}, "dimensions as given"},
      {"llama2-7b", &kLlama, llama2(32, 4096, 32, 32, 11008), kLlamaPaper},
      {"llama2-13b", &kLlama, llama2(40, 5120, 40, 40, 13824), kLlamaPaper},
      {"llama2-70b", &kLlama, llama2(80, 8192, 64, 8, 28672), kLlamaPaper},
      {"llama", &kLlama, {.vocabulary = 32000, .sequence = 4096}, "dimensions as given"},
      {"bert-base", &kBert, bert(12, 768, 12), kBertPaper},
      {"bert-large", &kBert, bert(24, 1024, 16), kBertPaper},
      {"bert", &kBert, {.vocabulary = 30522, .sequence = 512, .positions = 512, .tied_embedding = true}, "dimensions as given"},
      {"vit-l-16", &kVit, vit(24, 1024, 16, 4096, 16), kVitPaper},
      {"vit-h-14", &kVit, vit(32, 1280, 16, 5120, 14), kVitPaper},
      {"vit-g-14", &kVit, vit(40, 1408, 16, 6144, 14), kScalingVitPaper},
      {"vit", &kVit, {.image = 224, .patch = 16, .classes = 1000}, "dimensions as given"},
      {"mllm-14.9b", &kMllm, stp_mllm(32, 2048, 33, 5120), kStpPaper},
      {"mllm-28.8b", &kMllm, stp_mllm(26, 4096, 40, 7168), kStpPaper},
      {"mllm-30.3b", &kMllm, stp_mllm(26, 4096, 43, 7168), kStpPaper},
      {"mllm", &kMllm, {.vocabulary = 32000, .sequence = 2048, .image = 448, .patch = 14}, "dimensions as given"},
      {"sdxl-unet", &kUnet, unet(10, 320, 5), kSdxlPaper},
      {"unet", &kUnet, {.sequence = 77, .image = 64}, "dimensions as given"},
  };
  return models;
}

const BuiltInModel* find_model(std::string_view name) {
  for (const BuiltInModel& model : built_in_models())
    if (model.name == name) return &model;
  return nullptr;
}

ModelDimensions resolve(const BuiltInModel& model, const WorkloadRequest& request) {
  const std::string name(model.name);
  const auto stated = [&](std::string_view key, bool value) {
    const auto has = [&](const std::vector<std::string_view>& keys) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    require(!value || has(model.family->keys), fmt::format("the model '{}' has no '{}'", name, key));
    require(value || model.name != model.family->name || !has(model.family->required),
            fmt::format("the model '{}' needs '{}'", name, key));
  };
  for (const CountKey& count : kCounts) stated(count.key, request.*count.asked > 0);
  stated("tied_embedding", request.tied_embedding.value_or(false));

  ModelDimensions d = model.dimensions;
  // A published width of the MLP belongs to the published hidden size, key-value heads to the heads.
  if (request.hidden > 0 && request.hidden != d.hidden) d.ffn = 0;
  if (request.vision_hidden > 0 && request.vision_hidden != d.vision_hidden) d.vision_ffn = 0;
  if (request.heads > 0) d.kv_heads = 0;
  for (const CountKey& count : kCounts) d.*count.resolved = or_default(request.*count.asked, d.*count.resolved);
  d.tied_embedding = request.tied_embedding.value_or(d.tied_embedding);
  d.dropout = request.dropout;
  if (model.family->traits != nullptr) d.traits = *model.family->traits;
  fill_proportions(*model.family, d);
  check_dimensions(*model.family, name, d);
  return d;
}

void check_language_model(const std::string& model, const ModelDimensions& d) {
  check_sizes(model, d);
  check_heads(model, d);
  const Experts& e = d.traits.experts;
  for (const auto& [key, value, most] :
       {std::tuple("heads", d.heads, 1 << 16), std::tuple("shared_expert_ffn", e.shared_ffn, 1 << 24),
        std::tuple("experts", e.count, 1 << 16), std::tuple("expert_ffn", e.ffn, 1 << 22),
        std::tuple("query_rank", d.traits.latent.query_rank, 1 << 20), std::tuple("kv_rank", d.traits.latent.kv_rank, 1 << 20),
        std::tuple("positions", d.positions, 1 << 26)})
    require(value <= most, fmt::format("'{}' of {} is {}, more than {}", key, model, value, most));
  require(e.per_token <= std::max(e.count, 0) || e.count == 0,
          fmt::format("{} experts a token are more than the {} of {}", e.per_token, e.count, model));
}

void require_degrees(const WorkloadShape& shape, int experts, const std::string& model) {
  const std::vector<DegreeProblem> problems =
      check_degrees(shape.degrees, {.replicas = false, .all = false, .experts = experts, .model = model});
  if (!problems.empty()) throw InputError(problems.front().message);
}

void require_divides(const WorkloadShape& shape, std::int64_t extent, std::string_view what, const std::string& model) {
  if (extent % shape.degrees.tensor == 0) return;
  throw InputError(
      fmt::format("tensor parallelism of {} does not divide the {} {} of {}", shape.degrees.tensor, extent, what, model));
}

void check_degree_of_heads(const ModelDimensions& d, const WorkloadShape& shape, const std::string& model) {
  check_transformer_degree(d, tokens_of_rank(d, shape, model), shape, model);
  if (key_value_heads(d) % shape.degrees.tensor != 0 && shape.degrees.tensor % key_value_heads(d) != 0)
    throw InputError(
        fmt::format("tensor parallelism of {} neither divides the {} key-value heads of {} nor is a multiple of them",
                    shape.degrees.tensor, key_value_heads(d), model));
}

void check_transformer_degree(const ModelDimensions& d, int tokens, const WorkloadShape& shape, const std::string& model) {
  require_divides(shape, d.heads, "heads", model);
  require_divides(shape, d.hidden, "hidden features", model);
  require_divides(shape, d.ffn, "features of the MLP", model);
  if (shape.degrees.sequence_parallel)
    require_divides(shape, tokens,
                    shape.degrees.context > 1 ? "tokens of a rank's part of the sequence (sequence parallelism)"
                                              : "tokens of a sequence (sequence parallelism)",
                    model);
}

}  // namespace panpipe
