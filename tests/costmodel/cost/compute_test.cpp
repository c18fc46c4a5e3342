// Device time of a transformer layer against its closed form and against published measurements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/cost/compute.hpp"
#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

constexpr double kPeak = 312e12, kBandwidth = 2039e9;  // A100-80G SXM data sheet

// A layer on more tokens is never faster in any pass: the weight gradient's inner dimension is the tokens. BERT's pooler has one
// row a sample.
TEST(Units, MoreTokensAreNeverFaster) {
  const auto passes_of = [](const std::string& workload, int micro) {
    const auto made = make(fmt::format(R"(panpipe: 1
cluster: clusters/dgx-a100-80g.yaml
workload: {{{}}}
batch: {{micro: {}, microbatches: 8}}
precision: bf16
parallel: {{pipeline: 1}}
framework: llm.c
)",
                                       workload, micro));
    std::vector<double> times;
    for (const UnitCost& unit : made->cost().units)
      for (const PassCost* pass : {&unit.forward, &unit.input_gradient, &unit.weight_gradient})
        times.push_back(pass->breakdown.total.base());
    return times;
  };
  const auto expect_grow = [](const std::vector<double>& less, const std::vector<double>& more, int size) {
    ASSERT_EQ(less.size(), more.size());
    for (std::size_t i = 0; i < less.size(); ++i) EXPECT_LE(less[i], more[i] * (1 + 1e-12)) << "pass " << i << " at " << size;
  };
  const auto gpt = [&](int tokens) {
    return passes_of(fmt::format("model: gpt, layers: 1, hidden: 4096, heads: 32, sequence: {}, vocabulary: 51200", tokens), 1);
  };
  const auto bert = [&](int micro) {
    return passes_of("model: bert, layers: 1, hidden: 1024, heads: 8, sequence: 64, vocabulary: 32000", micro);
  };
  for (int size = 1; size < 2048; size *= 2) expect_grow(gpt(size), gpt(2 * size), size);
  for (int size = 1; size < 32; size *= 2) expect_grow(bert(size), bert(2 * size), size);
}

// (1 + ramp / s) / (1 + ramp / 4096): at 4096 tokens the calibrated rate itself.
TEST(Attention, ShortSequencesRunSlower) {
  DeviceRates rates;
  rates.flash = true;
  rates.attention = ComputeRate(100e12);
  const auto rate = [&](std::int64_t length) {
    const AttentionCost cost = attention_cost({1, 16, 16, length, length, 64, true}, rates);
    return cost.forward.work.base() / cost.forward.compute.base();
  };
  rates.attention_ramp = 480;
  EXPECT_NEAR(rate(4096), 100e12, 1);
  EXPECT_NEAR(rate(512), 100e12 * (1 + 480.0 / 4096) / (1 + 480.0 / 512), 1);
  // arXiv 2307.08691, FlashAttention-2, causal, heads of 128: 99 TFLOP/s at 512 tokens, 173 at 4096.
  EXPECT_NEAR(rate(512) / rate(4096), 99.0 / 173, 0.02);
}

TEST(Attention, UnalignedHeadsLeaveTheTensorCores) {
  DeviceRates rates;
  rates.gemm = ComputeRate(250e12);
  rates.unaligned = ComputeRate(10e12);
  rates.memory = Bandwidth(1e12);
  const AttentionShape aligned{1, 16, 16, 2048, 2048, 104, true}, unaligned{1, 16, 16, 2048, 2048, 108, true};
  const double ratio =
      attention_cost(unaligned, rates).forward.compute.base() / attention_cost(aligned, rates).forward.compute.base();
  EXPECT_GT(ratio, 9);
  // Two products of 2 x 108 FLOP per score at 10 TFLOP/s.
  EXPECT_NEAR(attention_cost(unaligned, rates).forward.compute.base(), 16 * 2048.0 * 2048 * 4 * 108 / 10e12, 1e-12);
}

TEST(Attention, FlashSkipsTheMaskedHalfAndMovesNoScores) {
  DeviceRates rates;
  rates.flash = true;
  rates.attention = ComputeRate(100e12);
  const AttentionCost causal = attention_cost({1, 16, 16, 2048, 2048, 64, true}, rates);
  const AttentionCost full = attention_cost({1, 16, 16, 2048, 2048, 64, false}, rates);
  EXPECT_DOUBLE_EQ(full.forward.total.base(), 2 * causal.forward.total.base());
  EXPECT_DOUBLE_EQ(full.forward.total.base(), 16 * 2048.0 * 2048 * 4 * 64 / 100e12);
  EXPECT_DOUBLE_EQ(causal.forward.memory.base(), 0);
}

// Traffic of a layer's element-wise part in Megatron's fused kernels, N = tokens x hidden, 2-byte elements, per rank:
//   forward  22 N/sp + (4 + 4 f/h) N/t    backward  46 N/sp + (22 + 8 f/h) N/t
// forward: 2 layer norms 4N + 4N, 2 x bias-dropout-add 7N (read 2 + 2, mask 1, write 2); the context brought into the next
// product's order (2N read, 2N written) / t; GELU 4 f/h N/t. Backward: 2 x (layer norm 10N, dropout 5N, sum of two gradients 6N,
// bias 2N); layout 16N and query-key-value bias 6N; GELU 6 f/h and its bias 2 f/h.
TEST(Elementwise, TrafficOfALayerIsThatOfFusedKernels) {
  for (const bool sequence_parallel : {false, true})
    for (const int tensor : {1, 2, 8}) {
      if (sequence_parallel && tensor == 1) continue;
      GptCase c;
      c.tensor = tensor;
      c.sequence_parallel = sequence_parallel;
      const auto made = make_gpt(c);
      const Layer layer = layer_of(made->cost());
      const double n = 2048.0 * 4 * 6144, sp = sequence_parallel ? tensor : 1, f_over_h = 4;
      const Calibration& k = made->model->calibration(0);
      const double bandwidth = k.memory_efficiency * kBandwidth;
      const double scores = 64.0 / tensor * 4 * 2048.0 * 2048 * k.score_bytes;
      const double factor = made->scenario.framework.elementwise_factor * k.elementwise_scale / bandwidth;
      const double forward = (22 / sp + (4 + 4 * f_over_h) / tensor) * n * factor + scores / bandwidth;
      const double backward = (46 / sp + (22 + 8 * f_over_h) / tensor) * n * factor + scores / bandwidth;
      EXPECT_NEAR(layer.forward.memory.base() / forward, 1, 0.03) << "t " << tensor << " sequence parallel " << sequence_parallel;
      EXPECT_NEAR(layer.input_gradient.memory.base() / backward, 1, 0.03)
          << "t " << tensor << " sequence parallel " << sequence_parallel;
    }
}

// Products of a layer: forward (T,3h/t,h) (T,h,h/t) (T,4h/t,h) (T,h,4h/t) = 24 T h^2 / t FLOP, each gradient as much; scores
// 4 a/t b s^2 (h/a) forward and twice that backward.
TEST(Layer, ProductsAreCounted) {
  const auto made = make_gpt({});
  const Layer layer = layer_of(made->cost());
  const double tokens = 2048.0 * 4, h = 6144, t = 8;
  const double products = 24 * tokens * h * h / t, scores = 4 * tokens * 2048 * h / t;
  EXPECT_NEAR(layer.forward.work.base(), products + scores, 1e-6 * products);
  EXPECT_NEAR(layer.input_gradient.work.base(), products + 2 * scores, 1e-6 * products);
  EXPECT_NEAR(layer.weight_gradient.work.base(), products, 1e-6 * products);
  // At the calibrated rate, and somewhat more for waves of tiles that are not full.
  const double time = products / (made->model->calibration(0).gemm_efficiency * kPeak);
  EXPECT_GE(layer.weight_gradient.compute.base(), time);
  EXPECT_LE(layer.weight_gradient.compute.base(), 1.2 * time);
}

// Korthikanti et al., arXiv 2205.05198, table 4: one layer of the 22B model, A100-80G, t = 8, b = 4, s = 2048, h = 6144,
// a = 64; milliseconds forward, backward (with recompute).
TEST(Published, LayerOfThe22BModel) {
  struct Row {
    bool sequence_parallel;
    Recompute recompute;
    double forward, backward;
  };
  const Row rows[] = {{false, Recompute::None, 7.7, 11.9},
                      {true, Recompute::None, 7.2, 11.8},
                      {false, Recompute::Full, 7.7, 19.5},
                      {false, Recompute::Selective, 7.7, 13.2},
                      {true, Recompute::Selective, 7.2, 13.1}};
  for (const Row& row : rows) {
    GptCase c;
    c.sequence_parallel = row.sequence_parallel;
    const auto made = make_gpt(c);
    const Layer layer = layer_of(made->cost());
    double backward = (layer.input_gradient.total + layer.weight_gradient.total).base();
    if (row.recompute == Recompute::Full) backward += layer.recompute_full.total.base();
    if (row.recompute == Recompute::Selective) backward += layer.recompute_selective.total.base();
    EXPECT_NEAR(layer.forward.total.base() * 1e3 / row.forward, 1, 0.08);
    EXPECT_NEAR(backward * 1e3 / row.backward, 1, 0.08);
    EXPECT_NEAR((layer.forward.total.base() + backward) * 1e3 / (row.forward + row.backward), 1, 0.06);
  }
}

// Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, table 6: milliseconds of a middle stage's F, B (input gradient)
// and W on A100, s = 1024, t = 1.
TEST(Published, StageTimesOfTheZeroBubbleModels) {
  struct Row {
    int layers, heads, hidden, micro;
    double forward, input, weight;
  };
  const Row rows[] = {{3, 24, 2304, 6, 18.522, 18.086, 9.337},
                      {4, 32, 4096, 3, 29.718, 29.444, 19.927},
                      {3, 40, 5120, 1, 11.347, 11.248, 8.132},
                      {2, 48, 6144, 1, 10.419, 10.207, 7.715}};
  for (const Row& row : rows) {
    GptCase c;
    c.layers = row.layers, c.heads = row.heads, c.hidden = row.hidden, c.micro = row.micro;
    c.sequence = 1024, c.vocabulary = 32000, c.tensor = 1, c.framework = "megatron-zb";
    const auto made = make_gpt(c);
    const Layer layer = layer_of(made->cost());
    const auto pass = [&](const Breakdown& b, int launches) {
      return made->model->host_bound(b.total * row.layers, launches * row.layers, 0, made->degrees()).base() * 1e3;
    };
    EXPECT_NEAR(pass(layer.forward, layer.forward_launches) / row.forward, 1, 0.10) << row.hidden;
    EXPECT_NEAR(pass(layer.input_gradient, layer.backward_launches - 4) / row.input, 1, 0.125) << row.hidden;
    EXPECT_NEAR(pass(layer.weight_gradient, 4) / row.weight, 1, 0.055) << row.hidden;
  }
}

// T x V/t logits at the framework's bytes, 68 % of it forward; product (T, V/t, h).
TEST(Loss, ProductAndTrafficOfTheLogits) {
  const auto made = make_gpt({});
  const UnitCost& head = made->cost().units.back();
  const double tokens = 2048.0 * 4, vocabulary = 51200.0 / 8, h = 6144;
  const Calibration& k = made->model->calibration(0);
  const Framework& framework = made->scenario.framework;
  const double product = 2 * tokens * vocabulary * h / (k.gemm_efficiency * kPeak), bandwidth = k.memory_efficiency * kBandwidth;
  EXPECT_GE(head.forward.breakdown.compute.base(), product);
  EXPECT_LE(head.forward.breakdown.compute.base(), 1.1 * product);
  // The final layer norm adds 4 N bytes at the element-wise scale.
  const double norm = framework.elementwise_factor * k.elementwise_scale * 4 * tokens * h;
  const double loss = 0.68 * framework.loss.bytes_per_logit * tokens * vocabulary;
  EXPECT_NEAR(head.forward.breakdown.memory.base(), (norm + loss) / bandwidth, 1e-6);
  EXPECT_NEAR(head.weight_gradient.breakdown.memory.base(), 12 * vocabulary * h / bandwidth, 1e-9);
  EXPECT_TRUE(head.forward.synchronises);
  EXPECT_EQ(made->cost().loss_unit, static_cast<int>(made->cost().units.size()) - 1);
}

TEST(Embedding, ThreeAndSixPassesOverItsOutput) {
  const auto made = make_gpt({});
  const Breakdown& forward = made->cost().units.front().forward.breakdown;
  const double output = 2048.0 * 4 * 6144;
  EXPECT_NEAR(forward.memory.base(), 6 * output / (made->model->calibration(0).memory_efficiency * kBandwidth), 1e-9);
  EXPECT_NEAR(made->cost().units.front().input_gradient.breakdown.memory.base(),
              12 * output / (made->model->calibration(0).memory_efficiency * kBandwidth), 1e-9);
}

TEST(Launches, OfALayerAreTheFrameworksWhateverItsUnits) {
  GptCase c;
  c.tensor = 1;
  const auto one = make_gpt(c);
  EXPECT_EQ(layer_of(one->cost()).forward_launches, 28);
  EXPECT_EQ(layer_of(one->cost()).backward_launches, 40);
  // Each of the 2 + 2 collectives is a launch, whatever t is.
  c.tensor = 2;
  const auto two = make_gpt(c);
  EXPECT_EQ(layer_of(two->cost()).forward_launches, 28 + 2);
  EXPECT_EQ(layer_of(two->cost()).backward_launches, 40 + 2);
  EXPECT_EQ(layer_of(two->cost()).forward_beside, 0);
  // At t = 8 each waits collective_host x (8 - 4) / 4 for the other hosts besides.
  const auto eight = make_gpt({});
  const double wait = eight->model->calibration(0).collective_host.base();
  EXPECT_NEAR(wait, 250e-6, 10e-6);
  EXPECT_EQ(layer_of(eight->cost()).forward_launches, 28 + 2);
  EXPECT_EQ(layer_of(eight->cost()).backward_launches, 40 + 2);
  EXPECT_NEAR(layer_of(eight->cost()).forward_beside, 2 * wait, 1e-12);
  EXPECT_NEAR(layer_of(eight->cost()).backward_beside, 2 * wait, 1e-12);
}

TEST(HostBound, FourNormOrSum) {
  const auto made = make_gpt({});
  const Duration host = made->model->calibration(0).launch * 100.0;
  EXPECT_NEAR(made->model->host_bound(host, 100, 0, made->degrees()).base(), host.base() * std::pow(2.0, 0.25), 1e-12);
  EXPECT_NEAR(made->model->host_bound(seconds(1), 100, 0, made->degrees()).base(), 1.0, 1e-6);
  EXPECT_NEAR(made->model->host_bound(Duration(0), 100, 0, made->degrees()).base(), host.base(), 1e-12);
  GptCase c;
  c.framework = "megatron-deepspeed";  // launches synchronously
  const auto synchronous = make_gpt(c);
  EXPECT_NEAR(synchronous->model->host_bound(millis(2), 100, 0, synchronous->degrees()).base(), 2e-3 + host.base(), 1e-12);
}

TEST(StageJitter, GrowsWithTheRootOfTheLogarithm) {
  GptCase c;
  c.nodes = 1;
  const auto made = make_gpt(c);
  EXPECT_DOUBLE_EQ(made->model->stage_jitter({.pipeline = 1}), 1.0);
  const double spread = made->model->calibration(0).stage_jitter;
  EXPECT_NEAR(made->model->stage_jitter({.pipeline = 8}), 1 + spread * std::sqrt(2 * std::log(8.0)), 1e-12);
  // Four nodes: the slowest of them besides, 0.9 % x sqrt(2 ln 4) = 1.5 %.
  c.nodes = 4;
  const auto many = make_gpt(c);
  EXPECT_NEAR(many->model->stage_jitter({.pipeline = 1, .data = 32}), 1.014986, 1e-6);
  EXPECT_NEAR(many->model->stage_jitter({.pipeline = 8, .data = 4}) - 0.014986, made->model->stage_jitter({.pipeline = 8}), 1e-6);
  EXPECT_DOUBLE_EQ(many->model->stage_jitter({.pipeline = 8}), made->model->stage_jitter({.pipeline = 8})) << "three are idle";
  EXPECT_NEAR(made->model->overlap_slowdown(millis(10)).base(), 1.9e-3, 1e-12);
}

TEST(Pieces, AddUpAndFollowTheProgram) {
  const auto made = make_gpt({});
  for (const UnitCost& unit : made->cost().units)
    for (const PassCost* pass : {&unit.forward, &unit.input_gradient, &unit.weight_gradient, &unit.recompute_full}) {
      Duration sum(0);
      for (const Piece& piece : pass->pieces) sum += piece.time;
      EXPECT_NEAR(sum.base(), pass->breakdown.total.base(), 1e-12) << unit.name;
      const Breakdown& b = pass->breakdown;
      EXPECT_NEAR((b.compute + b.memory + b.communication + b.launch).base(), b.total.base(), 1e-12) << unit.name;
    }
  // Attention half: compute up to the row-parallel product, its all-reduce, then the residual sum. Backward: down to the
  // gradient of the column-parallel product's input, its all-reduce, then the layer norm.
  const UnitCost& attention = made->cost().units[1];
  ASSERT_EQ(attention.forward.pieces.size(), 3U);
  EXPECT_TRUE(attention.forward.pieces[1].collective);
  ASSERT_EQ(attention.input_gradient.pieces.size(), 3U);
  EXPECT_TRUE(attention.input_gradient.pieces[1].collective);
  EXPECT_FALSE(attention.input_gradient.pieces[1].hidden_behind_next);
}

// Every built-in model on one device: every unit takes time forward, and a step's work is about three times the forward's.
TEST(Units, OfEveryBuiltInModel) {
  const std::vector<std::string> families = {"gpt", "llama", "bert", "vit", "mllm", "unet"};  // need dimensions
  for (const std::string& name : model_names()) {
    if (std::find(families.begin(), families.end(), name) != families.end()) continue;
    const auto made = make(fmt::format(R"(panpipe: 1
cluster: {{file: clusters/dgx-a100-80g.yaml, nodes: 1}}
workload: {{model: {}}}
batch: {{micro: 1, microbatches: 8}}
precision: bf16
parallel: {{pipeline: 1, data: 8}}
framework: eager
)",
                                       name));
    Breakdown forward, gradients;
    for (const UnitCost& unit : made->cost().units) {
      EXPECT_GT(unit.forward.breakdown.total, Duration(0)) << name << " " << unit.name;
      EXPECT_GE(unit.saved, Bytes(0)) << name << " " << unit.name;
      EXPECT_LE(unit.saved_selective, unit.saved) << name << " " << unit.name;
      EXPECT_GT(unit.forward.host.launches, 0) << name << " " << unit.name;
      forward = forward + unit.forward.breakdown;
      gradients = gradients + unit.input_gradient.breakdown + unit.weight_gradient.breakdown;
    }
    EXPECT_NEAR(gradients.work.base() / forward.work.base(), 2.0, 0.1) << name;
    EXPECT_NEAR(3 * forward.work.base() / made->workload.model_flops.base(), 1, 0.02) << name;
    EXPECT_GT(forward.total, Duration(0));
    EXPECT_FALSE(made->cost().edges.empty());
  }
}

TEST(Units, OfEqualStructureCostTheSame) {
  GptCase c;
  c.layers = 6;
  const auto made = make_gpt(c);
  const auto& units = made->cost().units;
  ASSERT_EQ(units.size(), 14U);  // embedding, 6 x (attention, mlp), head
  for (std::size_t i = 3; i < 13; ++i) {
    EXPECT_EQ(units[i].forward.breakdown.total, units[i - 2].forward.breakdown.total);
    EXPECT_EQ(units[i].saved, units[i - 2].saved);
  }
  EXPECT_EQ(units[3].name, "h.1.attention");
}

}  // namespace
}  // namespace panpipe
