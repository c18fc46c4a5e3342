// Activation and parameter bytes against the formulas of Korthikanti et al. (arXiv 2205.05198) and Rajbhandari et al.
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

double tokens_by_hidden(const GptCase& c) { return static_cast<double>(c.sequence) * c.micro * c.hidden; }

// Equation 2: s b h (10 + (24 + 5 a s / h) / t). Not divided by t: layer-norm inputs 2 + 2, inputs of the two
// column-parallel products 2 + 2, dropout masks 1 + 1. Divided: query, key, value 6, context 2, GELU's input and output
// 8 + 8; scores: softmax 2, mask 1, dropped scores 2 bytes each. Without sequence parallelism: equation 1 is t = 1.
TEST(Activations, OfALayer) {
  for (const int tensor : {1, 2, 4, 8}) {
    GptCase c;
    c.tensor = tensor;
    const auto made = make_gpt(c);
    const Layer layer = layer_of(made->cost());
    const double n = tokens_by_hidden(c), score = 5.0 * c.heads * c.sequence / c.hidden;
    // Statistics of the two layer norms, 8 bytes a token each, are neglected there.
    EXPECT_NEAR(layer.saved, n * (10 + (24 + score) / tensor), 0.005 * n) << tensor;
    EXPECT_NEAR(layer.saved_selective, n * (10 + 24.0 / tensor), 0.005 * n) << tensor;  // equation 6 without its /t on 10
    EXPECT_NEAR(layer.saved_full, 2 * n, 1) << tensor;                                  // the layer's input, 2 s b h
  }
}

// Equation 4: s b h / t (34 + 5 a s / h), everything divided.
TEST(Activations, SequenceParallel) {
  GptCase c;
  c.sequence_parallel = true;
  const auto made = make_gpt(c);
  const Layer layer = layer_of(made->cost());
  const double n = tokens_by_hidden(c), score = 5.0 * c.heads * c.sequence / c.hidden;
  EXPECT_NEAR(layer.saved, n / 8 * (34 + score), 0.005 * n);
  EXPECT_NEAR(layer.saved_selective, n / 8 * 34, 0.005 * n);  // equation 6
}

// Without dropout its masks (1 + 1 per element, 1 per score) and the dropped copy of the scores (2) go: 32 + 2 a s / h.
// With dropout in the graph, the graph's own masks are counted and none added.
TEST(Activations, DropoutOffAndInTheGraph) {
  GptCase c;
  c.tensor = 1;
  const double n = tokens_by_hidden(c), ratio = static_cast<double>(c.heads) * c.sequence / c.hidden;
  const auto with = [&](const std::string& framework, const std::string& dropout) {
    auto made = make(fmt::format(R"(panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {{model: gpt, layers: 2, hidden: {}, heads: {}, sequence: {}, vocabulary: 51200{}}}
batch: {{micro: {}, microbatches: 8}}
precision: fp16
parallel: {{pipeline: 1, tensor: 1}}
framework: {}
)",
                                 c.hidden, c.heads, c.sequence, dropout, c.micro, framework));
    return layer_of(made->cost()).saved / n;
  };
  EXPECT_NEAR(with("megatron", ""), 34 + 5 * ratio, 0.005);
  EXPECT_NEAR(with("megatron", ", dropout: 0.1"), 34 + 5 * ratio, 0.005);
  // Flash attention without dropout keeps 4 bytes a head and token instead of scores: 4 a / h more.
  EXPECT_NEAR(with("llm-foundry", ""), 32 + 4.0 * c.heads / c.hidden, 0.005);
}

// Of four blocks the second and the fourth are recomputed: they keep their input, 2 s b h, and run their forward again.
TEST(Activations, OneBlockInTwoIsRecomputed) {
  GptCase c;
  c.layers = 4;
  const auto plain = make_gpt(c);
  c.extra = "recompute: {every: 2}\n";
  const auto made = make_gpt(c);
  EXPECT_EQ(made->scenario.recompute, Recompute::Full);
  for (const int number : {1, 2, 3, 4}) {
    const Layer layer = layer_of(made->cost(), number - 1), before = layer_of(plain->cost(), number - 1);
    const bool again = number % 2 == 0;
    EXPECT_NEAR(layer.saved_full, again ? 2 * tokens_by_hidden(c) : before.saved, 1) << number;
    EXPECT_EQ(layer.recompute_full.total, again ? before.recompute_full.total : Duration(0)) << number;
    EXPECT_EQ(layer.saved, before.saved);
  }
}

// Autocast leaves what goes from block to block in fp32.
TEST(Activations, ABlockKeepsItsInputInFp32UnderAutocast) {
  for (const bool autocast : {false, true}) {
    const auto made =
        make(fmt::format("panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {{model: gpt, layers: 2, hidden: 1024, "
                         "heads: 16, sequence: 512, "
                         "vocabulary: 51200}}\nbatch: {{micro: 2, microbatches: 1}}\nprecision: bf16\nparallel: {{pipeline: "
                         "1}}\nframework: {{name: "
                         "eager-sdpa, autocast: {}}}\n",
                         autocast));
    EXPECT_NEAR(layer_of(made->cost()).saved_full, (autocast ? 4 : 2) * 512.0 * 2 * 1024, 1);
  }
}

// A layer of width 1024 activates 4096 values a token. In operators x / 2, tanh and 1 + tanh are kept beyond x and the result:
// 3 x 2 bytes; under autocast x (2 more bytes), tanh and 1 + tanh are in fp32: 2 + 4 + 4 + 2.
TEST(Activations, GeluInOperatorsKeepsItsParts) {
  for (const bool autocast : {false, true}) {
    const auto saved = [&](const char* activation) {
      const auto made = make(fmt::format(
          "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {{model: gpt, layers: 2, hidden: 1024, heads: 16, "
          "sequence: 512, vocabulary: 51200}}\nbatch: {{micro: 2, microbatches: 1}}\nprecision: bf16\nparallel: "
          "{{pipeline: 1}}\nframework: {{name: eager-sdpa, autocast: {}, activation: {}}}\n",
          autocast, activation));
      return layer_of(made->cost()).saved;
    };
    EXPECT_NEAR(saved("operators") - saved("kernel"), (autocast ? 12 : 6) * 512.0 * 2 * 4096, 1);
  }
}

// Of 2048 tokens 2 rows each go to experts. The weighted sum keeps the rows, 2 bytes x 2 x 2048 x 1024; Megatron-Core's grouped
// products have multiplied with the weights before.
TEST(Activations, RowsThatWereWeighedBeforeAreNotKept) {
  const auto saved = [](const std::string& products) {
    const auto made = make(fmt::format(
        "panpipe: 1\ncluster: {{file: clusters/h100x8.yaml, nodes: 1}}\nworkload: {{config: {{model_type: mixtral, hidden_size: "
        "1024, "
        "num_hidden_layers: 2, num_attention_heads: 8, num_key_value_heads: 2, intermediate_size: 2048, num_local_experts: 16, "
        "vocab_size: 8192}}, sequence: 2048}}\nbatch: {{micro: 1, microbatches: 8}}\nprecision: bf16\nparallel: {{pipeline: 1, "
        "data: "
        "8, expert: 8}}\nframework: {{name: megatron-core, expert_products: {}}}\n",
        products));
    return layer_of(made->cost()).saved;
  };
  EXPECT_NEAR(saved("grouped") - saved("each"), 2.0 * 2 * 2048 * 1024, 1);
}

// The list [attention] is `selective`.
TEST(Activations, TheListOfAttentionAloneIsSelective) {
  GptCase c;
  c.tensor = 2;
  c.extra = "recompute: selective\n";
  const auto word = make_gpt(c);
  c.extra = "recompute: {operators: [attention]}\n";
  const auto list = make_gpt(c);
  EXPECT_EQ(list->scenario.recompute, Recompute::Selective);
  ASSERT_EQ(list->cost().units.size(), word->cost().units.size());
  for (std::size_t u = 0; u < list->cost().units.size(); ++u) {
    EXPECT_EQ(list->cost().units[u].saved_selective, word->cost().units[u].saved_selective);
    EXPECT_EQ(list->cost().units[u].recompute_selective.breakdown.total,
              word->cost().units[u].recompute_selective.breakdown.total);
  }
}

// Of equation 2's 34 bytes go: [norms] the layer norms' results, which the products read, 2 + 2. [elementwise] GELU's result 8
// and the dropout masks 1 + 1; of the sum in the middle its input stays instead. [products] query, key and value 6 and
// GELU's input 8.
TEST(Activations, ListedOperatorsAreMadeAgain) {
  GptCase c;
  c.tensor = 1;
  const double score = 5.0 * c.heads * c.sequence / c.hidden;
  const auto kept = [&](const std::string& operators) {
    GptCase listed = c;
    listed.extra = "recompute: {operators: [" + operators + "]}\n";
    return layer_of(make_gpt(listed)->cost()).saved_selective / tokens_by_hidden(c);
  };
  EXPECT_NEAR(kept("norms"), 34 - 4 + score, 0.005);
  EXPECT_NEAR(kept("elementwise"), 34 - 10 + score, 0.005);
  EXPECT_NEAR(kept("products"), 34 - 14 + score, 0.005);
  EXPECT_NEAR(kept("norms, attention"), 34 - 4, 0.005);
}

// Tensors that torchtitan keeps by operator (its option `op`): results of the first, third, fifth ... product of a block and of
// attention. Of a Llama's query, key, value, output | gate, up, down these are query 2 h, value 2 k, gate 2 f bytes a token (the
// block's last product is read by nobody), attention's result 2 h with 4 bytes a head, and the block's input 2 h. Key, output and
// up run again: 2 h (k + h + f) operations a token. k: width of the key-value heads.
TEST(Activations, EverySecondProductOfALlamaIsMadeAgain) {
  constexpr double h = 4096, k = 1024, f = 14336, heads = 32, tokens = 2.0 * 8192;
  const auto made = make(R"(panpipe: 1
cluster: {file: clusters/h100x8.yaml}
workload: {model: llama, layers: 2, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256, sequence: 8192}
batch: {micro: 2, microbatches: 1}
precision: bf16
parallel: {pipeline: 1, tensor: 1, data: 8, zero: 3}
framework: llm-foundry
recompute: {operators: [norms, elementwise, second-products]}
)");
  const Layer layer = layer_of(made->cost());
  EXPECT_NEAR(layer.saved_selective, tokens * (6 * h + 2 * k + 2 * f + 4 * heads), 1);
  const double products = tokens * 2 * h * (k + h + f);
  EXPECT_NEAR(layer.recompute_selective.work.base(), products, 0.001 * products);
  EXPECT_LT(layer.recompute_selective.total, layer.recompute_full.total);
}

// Zero Bubble (arXiv 2401.10241, section 3.1) counts 32 s b h for what W needs: the inputs of the four products
// (2 + 2 + 2 + 8) and the gradients of their results (6 + 2 + 8 + 2).
TEST(Activations, KeptForTheWeightGradient) {
  GptCase c;
  c.tensor = 1;
  const auto made = make_gpt(c);
  EXPECT_NEAR(layer_of(made->cost()).kept_for_weight, 32 * tokens_by_hidden(c), 1);
  for (const UnitCost& unit : made->cost().units) EXPECT_LE(unit.kept_for_weight, unit.saved) << unit.name;
}

// Logits are what the loss reads, not what is as large: with hidden 4096 and a vocabulary of 32768 over 8 ranks a rank's logits
// have as many elements as the hidden state. A little more vocabulary moves the head's bytes and times a little.
TEST(Activations, HiddenStatesAsLargeAsTheLogitsAreKept) {
  const auto head_with = [](int vocabulary) {
    const auto made = make(fmt::format(R"(panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {{model: llama, layers: 2, hidden: 4096, heads: 64, ffn: 11008, vocabulary: {}, sequence: 1024}}
batch: {{micro: 4, microbatches: 4}}
precision: fp16
parallel: {{pipeline: 1, tensor: 8}}
framework: eager
)",
                                       vocabulary));
    return made->cost().units.back();
  };
  const UnitCost equal = head_with(32768), more = head_with(32768 + 8);
  EXPECT_NEAR(static_cast<double>(equal.saved.base()) / static_cast<double>(more.saved.base()), 1, 0.001);
  EXPECT_NEAR(static_cast<double>(equal.kept_for_weight.base()) / static_cast<double>(more.kept_for_weight.base()), 1, 0.001);
  EXPECT_NEAR(static_cast<double>(equal.temporary.base()) / static_cast<double>(more.temporary.base()), 1, 0.001);
  EXPECT_NEAR(equal.forward.breakdown.memory / more.forward.breakdown.memory, 1, 0.001);
  EXPECT_NEAR(equal.input_gradient.breakdown.memory / more.input_gradient.breakdown.memory, 1, 0.001);
}

TEST(Activations, LogitsAreWithinTheLossUnit) {
  const auto made = make_gpt({});
  const UnitCost& head = made->cost().units.back();
  const double logits = 2048.0 * 4 * 51200 / 8;
  EXPECT_EQ(made->model->loss_bytes_live(), Bytes(static_cast<std::int64_t>(10 * logits)));
  // Between the passes 4 bytes a logit, and besides the inputs of the layer norm and of the product, 2 + 2 s b h.
  EXPECT_NEAR(static_cast<double>(head.saved.base()), 4 * logits + 4 * tokens_by_hidden({}), 0.001 * 4 * logits);
  EXPECT_GE(static_cast<double>(head.temporary.base()), 6 * logits);
}

TEST(ParameterBytes, ByPrecisionFrameworkAndZero) {
  struct Row {
    std::string precision, framework;
    int data, zero;
    double weights, gradients, optimizer;
  };
  const Row rows[] = {
      // Zero Bubble's memory: 4 + 12 (2-byte weight and gradient; fp32 master and two moments).
      {"bf16", "megatron-zb", 1, 0, 2, 2, 12},
      // BLOOM's (ZeRO 1 by its framework): gradients in 2 bytes, and in fp32 the rank's quarter in fp16, 2 + 4 / 4, all of them
      // in bf16, 2 + 4.
      {"fp16", "megatron-deepspeed", 4, 0, 2, 3, 3},
      {"bf16", "megatron-deepspeed", 4, 0, 2, 6, 3},
      {"fp32", "megatron", 1, 0, 4, 4, 8},
      {"bf16-pure", "megatron", 1, 0, 2, 2, 4},
      // ZeRO 3 of mixed precision over 8 ranks: 16 bytes / 8 (arXiv 1910.02054, section 5).
      {"bf16", "megatron", 8, 3, 0.25, 0.25, 1.5},
      {"bf16", "megatron", 8, 2, 2, 0.25, 1.5},
      // Autocast: fp32 weights and gradients, two moments; FSDP divides them, and holds 2 bytes whole under ZeRO 2.
      {"bf16", "eager", 1, 0, 4, 4, 8},
      {"bf16", "eager", 8, 3, 0.5, 0.5, 1},
      {"bf16", "torchtitan", 8, 2, 2.5, 0.5, 1},
  };
  for (const Row& row : rows) {
    const auto made = make(fmt::format(R"(panpipe: 1
cluster: {{file: clusters/dgx-a100-80g.yaml, nodes: 1}}
workload: {{model: gpt, layers: 2, hidden: 256, heads: 4, sequence: 128, vocabulary: 1024}}
batch: {{micro: 1, microbatches: 2}}
precision: {}
parallel: {{pipeline: 1, data: {}, zero: {}}}
framework: {}
)",
                                       row.precision, row.data, row.zero, row.framework));
    EXPECT_DOUBLE_EQ(made->model->parameter_bytes(made->degrees()), row.weights) << row.precision << row.framework;
    EXPECT_DOUBLE_EQ(made->model->gradient_bytes(made->degrees()), row.gradients) << row.precision << row.framework;
    EXPECT_DOUBLE_EQ(made->model->optimizer_bytes(made->degrees()), row.optimizer) << row.precision << row.framework;
  }
}

// 30 bytes per parameter of Adam in mixed precision at 0.88 x 2039 GB/s, and what a step takes besides.
TEST(Optimizer, Step) {
  const auto made = make_gpt({});
  EXPECT_NEAR(made->model->optimizer(1'000'000'000, 0, 0, made->degrees()).total.base(),
              30e9 / (0.88 * 2039e9) + made->model->calibration(0).step.base(), 1e-9);
}

TEST(Parameters, TiedEmbeddingIsOneParameter) {
  const auto made = make_gpt({});
  const auto& units = made->cost().units;
  bool found = false;
  for (const ParameterUse& head : units.back().parameters)
    for (const ParameterUse& embedding : units.front().parameters) found |= head.tensor == embedding.tensor;
  EXPECT_TRUE(found);
}

TEST(Edges, HandOneTensorFromUnitToUnit) {
  const auto made = make_gpt({});
  const WorkloadCost& cost = made->cost();
  ASSERT_EQ(cost.edges.size(), cost.units.size() - 1);
  for (std::size_t i = 0; i < cost.edges.size(); ++i) {
    EXPECT_EQ(cost.edges[i].from, static_cast<int>(i));
    EXPECT_EQ(cost.edges[i].to, static_cast<int>(i) + 1);
    EXPECT_EQ(cost.edges[i].bytes, Bytes(2LL * 2048 * 4 * 6144));
  }
}

}  // namespace
}  // namespace panpipe
