// Towers of models with images: operations against closed forms, tokens, units, cuts over ranks, refusals. Their parameters are
// compared with transformers' in counted_models_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/input/yaml_document.hpp"
#include "costmodel/workload/model_config.hpp"
#include "costmodel/workload/vision_tower.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

// 64 features for text, 32 for images; patches of 2 frames of 4 x 4 pixels, 3 colours, joined by four. `images`: keys at the top.
std::string qwen(const std::string& images, const std::string& vision = "") {
  return "{model_type: qwen2_5_vl, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, "
         "intermediate_size: 96, vocab_size: 512, " +
         images +
         " vision_config: {depth: 2, hidden_size: 32, intermediate_size: 48, num_heads: 4, out_hidden_size: 64, patch_size: 4, "
         "window_size: 16, fullatt_block_indexes: [1]" +
         vision + "}}";
}

ModelConfig read(const std::string& text, int tokens = 128) {
  return read_model_config(*parse_document(text, "config.json", "."), tokens);
}

Workload make(const ModelConfig& config, const WorkloadShape& shape = {.degrees = {.micro = 1}, .precision = Precision::Bf16}) {
  WorkloadRequest request;
  request.config = std::make_shared<ModelConfig>(config);
  return make_workload(request, shape);
}

// Two images of 32 x 32 pixels are 2 x 64 patches, 32 tokens. Each patch takes in the forward 2 x 96 x 32 operations of its own;
// in both layers 2 (4 x 32 x 32 + 3 x 32 x 48), and 4 x 32 for each patch that it sees, 16 of its window in the first layer and
// 64 of its image in the second; each token 2 (128 x 128 + 128 x 64) in the projector. The text part computes what it does
// without images: its sequence is as long.
TEST(VisionTower, OperationsAreThoseOfItsLayers) {
  const double with = make(read(qwen("images_per_sample: 2, image_size: 32,"))).model_flops.base();
  const double without = make(read(qwen("images_per_sample: 0,"))).model_flops.base();
  const double patch = 2 * 96 * 32 + 2 * 2 * (4 * 32 * 32 + 3 * 32 * 48) + 4 * 32 * (16 + 64);
  EXPECT_DOUBLE_EQ(with - without, 3 * (128 * patch + 32 * 2.0 * (128 * 128 + 128 * 64)));
}

TEST(VisionTower, StandsInFrontOfTheWords) {
  const Workload made = make(read(qwen("images_per_sample: 2, image_size: [32, 16],")));
  std::vector<std::string> units;
  for (const auto& unit : made.graph->units) units.push_back(unit.name);
  EXPECT_THAT(units, testing::ElementsAre("vision.embedding", "vision.h.0.attention", "vision.h.0.mlp", "vision.h.1.attention",
                                          "vision.h.1.mlp", "projector", "embedding", "h.0.attention", "h.0.mlp", "h.1.attention",
                                          "h.1.mlp", "head"));
  const auto input = [&](const std::string& name) {
    for (const int t : made.graph->inputs)
      if (made.graph->tensors[t].name == name) return made.graph->tensors[t].shape;
    return Shape{};
  };
  EXPECT_EQ(input("pixel_values"), (Shape{1, 2 * 8 * 4, 96}));
  EXPECT_EQ(input("input_ids"), (Shape{1, 128 - 16})) << "2 x 8 x 4 patches are 16 tokens";
  EXPECT_EQ(input("labels"), (Shape{1, 128}));
}

TEST(VisionTower, RanksShareItsHeads) {
  const ModelConfig config = read(qwen("image_size: 32,"));
  const Workload one = make(config);
  for (const bool sequence : {false, true}) {
    const Workload cut = make(config, {.degrees = {.tensor = 2, .micro = 1, .sequence_parallel = sequence}});
    EXPECT_EQ(cut.parameters, one.parameters);
    EXPECT_DOUBLE_EQ(cut.model_flops.base(), one.model_flops.base());
    EXPECT_NO_THROW(cut.graph->check());
  }
}

// Qwen 3 VL: the results of tower layers 0 and 1 enter text layers 0 and 1 through projectors of their own, of norm and two
// products on 4 x 32 features.
TEST(VisionTower, EarlierLayersEnterTheFirstLayersOfTheText) {
  const auto text = [](const std::string& deep) {
    return "{model_type: qwen3_vl, image_size: 32, text_config: {model_type: qwen3_vl_text, hidden_size: 64, num_hidden_layers: "
           "2, "
           "num_attention_heads: 4, num_key_value_heads: 4, head_dim: 16, intermediate_size: 96, vocab_size: 512}, "
           "vision_config: "
           "{depth: 2, hidden_size: 32, intermediate_size: 48, num_heads: 4, out_hidden_size: 64, patch_size: 4, "
           "num_position_embeddings: 64, deepstack_visual_indexes: " +
           deep + "}}";
  };
  const Workload none = make(read(text("[]"))), both = make(read(text("[0, 1]")));
  EXPECT_EQ(both.parameters - none.parameters, 2 * (2 * 128 + 128 * 128 + 128 + 128 * 64 + 64));
  EXPECT_EQ(both.graph->units[3].name, "vision.deep.0");
  EXPECT_EQ(both.graph->units.size(), none.graph->units.size() + 2);
  EXPECT_THAT(test::fault_of([&] { read(text("[2]")); }), HasSubstr("the tower has 2 layers and no layer 2"));
}

// Without a size, and where the one image is longer than the sequence, the text stands alone, and that is reported.
TEST(VisionTower, ImagesThatAreNotStatedAreReported) {
  const ModelConfig stated = read(qwen("image_size: 32,"));
  ASSERT_NE(stated.dimensions.tower, nullptr);
  EXPECT_THAT(stated.assumptions, testing::Contains("1 image of 8 x 8 patches a sample, 16 tokens of its 128"));
  const ModelConfig none = read(qwen(""));  // 448 pixels of a side: 3136 tokens
  EXPECT_EQ(none.dimensions.tower, nullptr);
  EXPECT_THAT(none.assumptions, testing::Contains(HasSubstr("the text part of 'qwen2_5_vl' alone")));
  EXPECT_NE(read(qwen(""), 4096).dimensions.tower, nullptr);
}

TEST(VisionTower, RefusalsNameWhatDoesNotFit) {
  const auto fault = [](const std::string& text, const WorkloadShape& shape = {.degrees = {.micro = 1}}) {
    return test::fault_of([&] { make(read(text), shape); });
  };
  EXPECT_THAT(fault(qwen("images_per_sample: 9, image_size: 32,")), HasSubstr("the images of a sample are 144 tokens, and its "
                                                                              "sequence has 128"));
  EXPECT_THAT(fault(qwen("image_size: 36,")), HasSubstr("a side of 36 pixels is no whole number of tokens of 8 x 8 pixels"));
  EXPECT_THAT(fault(qwen("image_size: 32,", ", hidden_act: mish")), HasSubstr("the activation 'mish' is not known"));
  EXPECT_THAT(fault(qwen("image_size: 32,"), {.degrees = {.micro = 1, .context = 2}}),
              HasSubstr("are not divided over ranks with a part of the sequence"));
  const ModelConfig odd = read(qwen("image_size: 32,", ", depht: 3"));
  ASSERT_EQ(odd.not_followed.size(), 1U);
  EXPECT_THAT(odd.not_followed[0].message, HasSubstr("'depht' is no key that is known for Qwen2_5_VLForConditionalGeneration"));
}

}  // namespace
}  // namespace panpipe
