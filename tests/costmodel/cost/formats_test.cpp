// Products in 8 bits, and what an optimizer keeps: closed forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/cost/compute.hpp"
#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

constexpr double kHidden = 4096, kWidth = 11008, kTokens = 2.0 * 4096;
constexpr double kN = kTokens * kHidden, kF = kTokens * kWidth;
// Weights of a layer's seven products.
constexpr double kWeights = 4 * kHidden * kHidden + 3 * kHidden * kWidth;

std::unique_ptr<Made> llama(const std::string& precision, const std::string& choices = "", const std::string& cluster = "h100x8",
                            const std::string& parallel = "{pipeline: 1}") {
  return make(
      "panpipe: 1\ncluster: clusters/" + cluster +
      ".yaml\nworkload: {model: llama, layers: 2, hidden: 4096, heads: 32, ffn: 11008, vocabulary: 32000, sequence: 4096}\n"
      "batch: {micro: 2, microbatches: 8}\nprecision: " +
      precision + "\nparallel: " + parallel + "\nframework: {name: megatron-core, dropout: false, attention: flash-3" + choices +
      "}\n");
}

double bytes_of(const Made& made, Duration time) {
  const DeviceType& type = made.scenario.cluster.types[0];
  return time.base() * type.memory_bandwidth.base() * made.model->calibration(0).memory_efficiency;
}

// FP8's largest products: 1402.6 of 1979 TFLOP/s where bf16's are 794.5 of 989 (MAMF): 1.767 times as fast. Attention's core
// stays.
TEST(EightBits, ProductsOfBlocksRunAtTheirOwnRate) {
  const auto fp8 = llama("fp8"), bf16 = llama("bf16");
  const auto products = [](const Made& made) {
    Duration sum(0);
    for (const UnitCost& unit : made.cost().units)
      if (unit.layer == 0) sum += unit.forward.breakdown.compute - unit.attention_forward;
    return sum;
  };
  EXPECT_NEAR(products(*bf16) / products(*fp8), (1979 * 0.709 / 0.803) / 989, 0.03);
  const UnitCost &head = fp8->cost().units.back(), &before = bf16->cost().units.back();
  EXPECT_EQ(head.forward.breakdown.total, before.forward.breakdown.total) << "the head stays in bf16";
  EXPECT_EQ(layer_of(fp8->cost()).forward.work, layer_of(bf16->cost()).forward.work);
}

// Bytes of casts, N of hidden width and F of the MLP's. Delayed scaling, forward: the two normalizations write 1 byte for 2; the
// result of attention is read in 2 bytes and written with its transpose, 4, and so is the MLP's activation: 2 N + 4 F. Backward:
// the normalized ones are turned, 2 each; gradients of query, key, value, output and down 5 x 4 N, of gate and up 2 x 4 F.
// Current scaling reads each once more, 6; normalizations write 2 bytes and find the largest of them, 4. Blocks of 32: both
// directions have scales of their own, 2 x 33/32, and the normalization writes both.
TEST(EightBits, CastsMoveWhatTheirKernelsReadAndWrite) {
  struct Case {
    const char *precision, *choices, *cluster;
    double forward, backward;
  };
  const double block = 2 * 33.0 / 32;
  for (const Case& c :
       {Case{"fp8", "", "h100x8", 2 * kN + 4 * kF, 24 * kN + 8 * kF},
        Case{"fp8", ", fp8_scaling: current", "h100x8", 14 * kN + 6 * kF, 30 * kN + 12 * kF},
        Case{"mxfp8", "", "b200x8", 2 * (block - 2) * kN + (2 + block) * (kN + kF), (2 + block) * (5 * kN + 2 * kF)}}) {
    const auto made = llama(c.precision, c.choices, c.cluster), plain = llama("bf16", c.choices, c.cluster);
    const Layer layer = layer_of(made->cost()), before = layer_of(plain->cost());
    EXPECT_NEAR(bytes_of(*made, layer.forward.memory - before.forward.memory) / c.forward, 1, 1e-6) << c.precision << c.choices;
    EXPECT_NEAR(bytes_of(*made, layer.input_gradient.memory - before.input_gradient.memory) / c.backward, 1, 1e-6)
        << c.precision << c.choices;
  }
}

// Per token, bf16: inputs of the normalizations 2 + 2, their results 2 + 2, query, key, value and result 8, gate, up, its
// activation and the product 8 f/h; in 8 bits the results of normalizations 1 + 1 and the MLP's last input f/h, and attention's
// result once more, 1.
TEST(EightBits, InputsOfProductsAreKeptInOneByte) {
  const double bf16 = layer_of(llama("bf16")->cost()).saved, fp8 = layer_of(llama("fp8")->cost()).saved;
  EXPECT_NEAR(bf16 - fp8, kN + kF, 1);
  const double blocks = layer_of(llama("mxfp8", "", "b200x8")->cost()).saved;
  EXPECT_NEAR(blocks - fp8, (3 * kN + kF) / 32, 1);
  // Inputs of four kinds and gradients of seven results, once 2 bytes, once 1.
  const double kept = layer_of(llama("bf16")->cost()).kept_for_weight;
  EXPECT_NEAR(kept / layer_of(llama("fp8")->cost()).kept_for_weight, 2, 1e-9);
}

// A weight is cast once a step: 2 bytes read, 1 written in both directions, 4; current scaling reads it once more, 6. ZeRO 3
// gathers it in every pass: 2 x 8 times.
TEST(EightBits, WeightsAreCastOnceAStep) {
  const auto plain = llama("bf16");
  const std::int64_t all = plain->workload.trained_parameters;
  const auto more = [&](const Made& made, int zero) {
    Degrees degrees = made.degrees();
    degrees.data = 8;
    degrees.zero = zero;
    return static_cast<double>(
        (made.model->optimizer(all, 0, 0, degrees).traffic - plain->model->optimizer(all, 0, 0, degrees).traffic).base());
  };
  EXPECT_NEAR(more(*llama("fp8"), 0) / (4 * 2 * kWeights), 1, 1e-6);
  EXPECT_NEAR(more(*llama("fp8", ", fp8_scaling: current"), 1) / (6 * 2 * kWeights), 1, 1e-6);
  EXPECT_NEAR(more(*llama("fp8"), 3) / (8 * 4 * 2 * kWeights), 1, 1e-6);
}

// Kept from microbatch to microbatch in addition to the 2-byte weights: both directions, 2 bytes; in their place: nothing more,
// and a byte less is gathered.
TEST(EightBits, WeightsHaveCopies) {
  const auto sums = [](const Made& made) {
    std::pair<double, double> sum;
    for (const UnitCost& unit : made.cost().units)
      for (const ParameterUse& use : unit.parameters) {
        sum.first += static_cast<double>(use.copies.base());
        sum.second += static_cast<double>(use.narrower.base());
      }
    return sum;
  };
  EXPECT_EQ(sums(*llama("fp8")), std::pair(2 * 2 * kWeights, 0.0));
  EXPECT_EQ(sums(*llama("fp8", ", fp8_parameters: true")), std::pair(0.0, 2 * kWeights));
  EXPECT_EQ(sums(*llama("bf16")), std::pair(0.0, 0.0));
}

// Sequence parallelism: gathers of normalized inputs and of gradients of row-parallel results, two each a layer, carry half the
// bytes; reduce-scatters stay in bf16.
TEST(EightBits, GathersOfSequenceParallelismCarryOneByte) {
  const auto bytes = [](const std::string& precision) {
    const auto made = llama(precision, ", overlap_tensor_collectives: false, tensor_chunks: 1", "h100x8",
                            "{pipeline: 1, tensor: 8, sequence_parallel: true}");
    const WorkloadCost& cost = made->cost();
    std::map<CollectiveKind, double> sum;
    for (const UnitCost& unit : cost.units)
      for (const PassCost* pass : {&unit.forward, &unit.input_gradient})
        for (const Piece& piece : pass->pieces)
          if (unit.layer == 0 && piece.collective) {
            const CollectiveCost& collective = cost.collectives[piece.collective_id];
            sum[collective.kind] += static_cast<double>(collective.bytes.base());
          }
    return sum;
  };
  auto fp8 = bytes("fp8"), bf16 = bytes("bf16");
  EXPECT_DOUBLE_EQ(bf16[CollectiveKind::AllGather], 4 * 2 * kN);
  EXPECT_DOUBLE_EQ(fp8[CollectiveKind::AllGather], 4 * kN);
  EXPECT_DOUBLE_EQ(fp8[CollectiveKind::ReduceScatter], bf16[CollectiveKind::ReduceScatter]);
}

TEST(EightBits, DevicesWithoutThemAreNamed) {
  for (const auto& [precision, cluster, device, known] :
       {std::tuple("fp8", "dgx-a100-80g", "A100-80G-SXM", "fp32, tf32, bf16, fp16"),
        std::tuple("mxfp8", "h100x8", "H100-SXM", "fp32, tf32, bf16, fp16, fp8")}) {
    const auto made = llama(precision, "", cluster);
    const std::string fault = test::fault_of([&] { made->cost(); });
    EXPECT_THAT(fault, testing::HasSubstr(
                           fmt::format("the device {} has no compute rate for {}; its file gives {}", device, precision, known)));
  }
}

// Bytes a parameter: master and two moments. 8 bits: a byte and a scale of 4 for 256 elements. Without a master moments have the
// weights' format. Traffic: gradient 4, weight 2, master and moments both ways; 30 by default, fused.
TEST(OptimizerFormats, CountInMemoryAndTraffic) {
  struct Case {
    const char *precision, *optimizer;
    double held, moved;
  };
  const double state = 1 + 4.0 / 256;
  for (const Case& c : {Case{"bf16", "{name: adamw}", 12, 30}, Case{"bf16", "{name: adamw, states: bf16}", 4 + 4, 22},
                        Case{"bf16", "{name: adamw, states: 8bit}", 4 + 2 * state, 14 + 4 * state},
                        Case{"bf16", "{name: adamw, master: bf16}", 2 + 4, 4 + 2 + 4 + 8},
                        Case{"bf16", "{name: adamw, master: none}", 4, 4 + 2 + 2 + 8},
                        Case{"bf16", "{name: adamw, master: none, states: 8bit}", 2 * state, 8 + 4 * state},
                        Case{"bf16", "{name: adamw, master: none, states: fp32}", 8, 8 + 16},
                        Case{"fp32", "{name: adamw, states: 8bit}", 2 * state, 30 * (12 + 4 * state) / 28},
                        Case{"bf16-pure", "{name: adamw}", 4, 30}, Case{"fp8", "{name: adamw, states: bf16}", 8, 22 + 4}}) {
    GptCase g;
    g.tensor = 1;
    g.cluster = "h100x8";
    g.precision = c.precision;
    g.framework = "megatron-core";
    g.extra = std::string("optimizer: ") + c.optimizer + "\n";
    const auto made = make_gpt(g);
    EXPECT_DOUBLE_EQ(made->model->optimizer_bytes(made->degrees()), c.held) << c.precision << " " << c.optimizer;
    const double casts = std::string(c.precision) == "fp8" ? 4 : 0;
    const double traffic = static_cast<double>(made->model->optimizer(1000000, 0, 0, made->degrees()).traffic.base()) / 1e6;
    if (casts > 0)
      EXPECT_LT(traffic, c.moved) << "not every weight is a block's";
    else
      EXPECT_NEAR(traffic, c.moved, 1e-5) << c.precision << " " << c.optimizer;
  }
}

}  // namespace
}  // namespace panpipe
