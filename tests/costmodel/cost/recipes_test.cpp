// Training recipes with products in 8 or 4 bits: what each moves, keeps and gathers, in closed forms of its row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "costmodel/cost/compute.hpp"
#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

constexpr double kHidden = 4096, kWidth = 11008, kTokens = 2.0 * 4096;
constexpr double kN = kTokens * kHidden, kF = kTokens * kWidth;
// Weights of a layer's seven products.
constexpr double kWeights = 4 * kHidden * kHidden + 3 * kHidden * kWidth;

// Of one element with its scales: an e4m3 scale for 16 elements, an e8m0 one for 32, an fp32 one for 128 or 128 x 128.
constexpr double kNvfp4 = 0.5 + 1.0 / 16, kMxfp4 = 0.5 + 1.0 / 32, kBlock = 1 + 4.0 / 128, kSquare = 1 + 4.0 / (128 * 128);

struct Case {
  const char *precision, *choices, *cluster;
};

std::unique_ptr<Made> llama(const Case& c, const std::string& more = "", const std::string& parallel = "{pipeline: 1}",
                            const std::string& width = "11008") {
  return make(
      fmt::format("panpipe: 1\ncluster: clusters/{}.yaml\nworkload: {{model: llama, layers: 4, hidden: 4096, heads: 32, ffn: {}, "
                  "vocabulary: 32000, sequence: 4096}}\nbatch: {{micro: 2, microbatches: 8}}\nprecision: {}\nparallel: {}\n"
                  "framework: {{name: megatron-core, dropout: false, attention: flash-3{}{}}}\n",
                  c.cluster, width, c.precision, parallel, c.choices, more));
}

double bytes_of(const Made& made, Duration time) {
  const DeviceType& type = made.scenario.cluster.types[0];
  return time.base() * type.memory_bandwidth.base() * made.model->calibration(0).memory_efficiency;
}

// Inputs: two results of normalizations and that of attention, N each, the MLP's activation F. Gradients: of query, key, value,
// output and down 5 N, of gate and up 2 F. An element is read in 2 bytes, once more for its largest number (r), and written in
// one or two copies: 2 + r + copies. Where nothing is looked for first, a normalization writes the copies instead of 2 bytes.
//   Blackwell's products take either layout, so tensors with one scale have one copy: delayed 3, after a normalization -1;
//   current 5, and 3 behind a normalization, which finds the largest of its result. Blocks of 128 on Hopper 2 + 2 x 33/32.
//   Rows 2 + 2 + 2; with weight gradients in bf16 one copy, 5. NVFP4 4 + 2 x 9/16, whose casts take 1.5 times their bytes;
//   MXFP4 2 + 2 x 17/32.
TEST(Recipes, CastsMoveWhatTheirKernelsReadAndWrite) {
  struct Moved {
    Case of;
    double normalized, other;
  };
  for (const auto& [of, normalized, other] :
       {Moved{{"fp8", "", "b200x8"}, -1, 3}, Moved{{"fp8", ", fp8_scaling: current", "b200x8"}, 3, 5},
        Moved{{"fp8", ", fp8_scaling: blocks", "h100x8"}, 2 * kBlock - 2, 2 * kBlock + 2},
        Moved{{"fp8", ", fp8_scaling: rows", "h100x8"}, 6, 6},
        Moved{{"fp8", ", fp8_scaling: rows-except-weights", "h100x8"}, 5, 5},
        Moved{{"nvfp4", "", "b200x8"}, 1.5 * (4 + 2 * kNvfp4), 1.5 * (4 + 2 * kNvfp4)},
        Moved{{"mxfp4", "", "mi355x8"}, 2 * kMxfp4 - 2, 2 * kMxfp4 + 2}}) {
    const auto made = llama(of), plain = llama({"bf16", of.choices, of.cluster});
    const Layer layer = layer_of(made->cost()), before = layer_of(plain->cost());
    EXPECT_NEAR(bytes_of(*made, layer.forward.memory - before.forward.memory) / (2 * normalized * kN + other * (kN + kF)), 1,
                1e-6)
        << of.precision << of.choices;
    EXPECT_NEAR(bytes_of(*made, layer.input_gradient.memory - before.input_gradient.memory) / (other * (5 * kN + 2 * kF)), 1,
                1e-6)
        << of.precision << of.choices;
  }
}

// bf16 keeps the results of normalizations and the MLP's activation for weight gradients, 2 (2 N + F) bytes, and attention's
// result for attention. Recipes keep all four inputs in their format in addition to that result; one whose weight gradients are
// in bf16 keeps what bf16 does.
TEST(Recipes, InputsAreKeptForWeightGradients) {
  for (const auto& [of, element] :
       {std::pair(Case{"fp8", ", fp8_scaling: blocks", "h100x8"}, kBlock), std::pair(Case{"nvfp4", "", "b200x8"}, kNvfp4),
        std::pair(Case{"mxfp4", "", "mi355x8"}, kMxfp4)}) {
    const double less = layer_of(llama({"bf16", "", of.cluster})->cost()).saved - layer_of(llama(of)->cost()).saved;
    EXPECT_NEAR(less, 2 * (2 * kN + kF) - element * (3 * kN + kF), 4) << of.precision;
  }
  const Case rows{"fp8", ", fp8_scaling: rows-except-weights", "h100x8"};
  EXPECT_EQ(layer_of(llama(rows)->cost()).saved, layer_of(llama({"bf16", "", "h100x8"})->cost()).saved);
}

// Copies of a weight in addition to its 2 bytes: both directions, one for tensors with one scale on Blackwell. In place of the 2
// bytes: less by 2, and gathers carry one copy; MXFP8's weights are gathered in 2 bytes. The step reads a weight (r: twice) and
// writes its copies; in place it turns the copy that it wrote, MXFP8 casts both from the gathered 2 bytes.
TEST(Recipes, WeightsHaveCopies) {
  struct Held {
    Case of;
    double copies, gathered, cast, in_place;
  };
  const double mx = 33.0 / 32;
  for (const auto& [of, copies, gathered, cast, in_place] :
       {Held{{"fp8", "", "b200x8"}, 1, 1, 3, 0}, Held{{"fp8", "", "h100x8"}, 2, 1, 4, 2},
        Held{{"fp8", ", fp8_scaling: blocks", "h100x8"}, 2 * kSquare, kSquare, 2 + 2 * kSquare, 2 * kSquare},
        Held{{"mxfp8", "", "b200x8"}, 2 * mx, 2, 2 + 2 * mx, 2 + 2 * mx},
        Held{{"nvfp4", "", "b200x8"}, 2 * kNvfp4, kNvfp4, 1.5 * (4 + 2 * kNvfp4), 2 * kNvfp4}}) {
    const auto sums = [](const Made& made) {
      std::pair<double, double> sum;
      for (const UnitCost& unit : made.cost().units)
        for (const ParameterUse& use : unit.parameters) {
          sum.first += static_cast<double>(use.copies.base());
          sum.second += static_cast<double>(use.narrower.base());
        }
      return sum;
    };
    const auto kept = llama(of), in_its_place = llama(of, ", fp8_parameters: true"), plain = llama({"bf16", "", of.cluster});
    EXPECT_NEAR(sums(*kept).first / (4 * kWeights), copies, 1e-6) << of.precision << of.choices;
    EXPECT_NEAR(sums(*in_its_place).first / (4 * kWeights), copies - 2, 1e-6) << of.precision << of.choices;
    EXPECT_NEAR(sums(*in_its_place).second / (4 * kWeights), 2 - gathered, 1e-6) << of.precision << of.choices;
    const auto traffic = [&](const Made& made) {
      return static_cast<double>(made.model->optimizer(plain->workload.trained_parameters, 0, 0, made.degrees()).traffic.base());
    };
    EXPECT_NEAR((traffic(*kept) - traffic(*plain)) / (4 * kWeights), cast, 1e-5) << of.precision << of.choices;
    EXPECT_NEAR((traffic(*in_its_place) - traffic(*plain)) / (4 * kWeights), in_place, 1e-5) << of.precision << of.choices;
  }
}

TEST(Recipes, ProductsRunAtTheRateOfTheirWidth) {
  const auto rates = [](const Case& c) {
    const auto made = llama(c);
    return device_rates(made->scenario.cluster.types[0], made->model->calibration(0), made->scenario).narrow.gemm.base();
  };
  EXPECT_DOUBLE_EQ(rates({"nvfp4", "", "b200x8"}), 9000e12 * 0.50) << "as products in 8 bits";
  EXPECT_DOUBLE_EQ(rates({"nvfp4", "", "b300x8"}), 13125e12 * 0.388);
  const double scaled = rates({"fp8", ", fp8_scaling: blocks", "h100x8"}) / rates({"fp8", "", "h100x8"});
  EXPECT_DOUBLE_EQ(scaled, 0.81) << "published for Hopper";
  EXPECT_DOUBLE_EQ(rates({"fp8", ", fp8_scaling: blocks", "b200x8"}), rates({"fp8", "", "b200x8"}));
}

// Weight gradients in bf16 take as long as bf16's.
TEST(Recipes, PassesMayStayInBf16) {
  const Layer rows = layer_of(llama({"fp8", ", fp8_scaling: rows-except-weights", "h100x8"})->cost()),
              all = layer_of(llama({"fp8", ", fp8_scaling: rows", "h100x8"})->cost()),
              bf16 = layer_of(llama({"bf16", "", "h100x8"})->cost());
  EXPECT_EQ(rows.weight_gradient.compute, bf16.weight_gradient.compute);
  EXPECT_LT(all.weight_gradient.compute, 0.65 * bf16.weight_gradient.compute);
  EXPECT_EQ(rows.input_gradient.compute, all.input_gradient.compute);
}

// The first block and the last two cost and keep what bf16 does, the one between what the recipe does.
TEST(Recipes, BlocksAtBothEndsStayInBf16) {
  const Case nvfp4{"nvfp4", "", "b200x8"};
  const auto tails = llama(nvfp4, ", bf16_first: 1, bf16_last: 2"), all = llama(nvfp4), plain = llama({"bf16", "", "b200x8"});
  for (int layer = 0; layer < 4; ++layer) {
    const Layer of = layer_of(tails->cost(), layer), like = layer_of((layer == 1 ? all : plain)->cost(), layer);
    EXPECT_EQ(of.forward.total, like.forward.total) << layer;
    EXPECT_EQ(of.input_gradient.total, like.input_gradient.total) << layer;
    EXPECT_EQ(of.saved, like.saved) << layer;
    EXPECT_EQ(of.forward_launches, like.forward_launches) << layer;
  }
  // Of a quarter of the weights a step casts what it does of all four layers.
  const auto traffic = [&](const Made& made) {
    return static_cast<double>(made.model->optimizer(plain->workload.trained_parameters, 0, 0, made.degrees()).traffic.base());
  };
  EXPECT_NEAR((traffic(*tails) - traffic(*plain)) / (traffic(*all) - traffic(*plain)), 0.25, 1e-6);
  EXPECT_EQ(layer_of(llama(nvfp4, ", bf16_first: 3, bf16_last: 3")->cost()).forward.total, layer_of(plain->cost()).forward.total);
}

// Sequence parallelism: four gathers a layer of N elements; recipes that gather in bf16 leave 2 bytes.
TEST(Recipes, GathersOfSequenceParallelism) {
  const auto gathered = [](const Case& c) {
    const auto made =
        llama(c, ", overlap_tensor_collectives: false, tensor_chunks: 1", "{pipeline: 1, tensor: 8, sequence_parallel: true}");
    double sum = 0;
    for (const UnitCost& unit : made->cost().units)
      for (const PassCost* pass : {&unit.forward, &unit.input_gradient})
        for (const Piece& piece : pass->pieces)
          if (unit.layer == 0 && piece.collective)
            if (const CollectiveCost& exchange = made->cost().collectives[piece.collective_id];
                exchange.kind == CollectiveKind::AllGather)
              sum += static_cast<double>(exchange.bytes.base());
    return sum;
  };
  EXPECT_DOUBLE_EQ(gathered({"nvfp4", "", "b200x8"}), 4 * kNvfp4 * kN);
  EXPECT_DOUBLE_EQ(gathered({"fp8", ", fp8_scaling: blocks", "h100x8"}), 4 * kBlock * kN);
  EXPECT_DOUBLE_EQ(gathered({"fp8", ", fp8_scaling: rows", "h100x8"}), 4 * 2 * kN);
  EXPECT_DOUBLE_EQ(gathered({"mxfp4", "", "mi355x8"}), 4 * 2 * kN);
}

// 4-bit operands are aligned to 32 elements, and so are MXFP8's blocks: an MLP of 11024 = 16 x 689 stays in bf16, attention does
// not.
TEST(Recipes, SizesThatDoNotFitStayInBf16) {
  const auto kept = [](const Case& c, const std::string& width) {
    return layer_of(llama(c, "", "{pipeline: 1}", width)->cost()).saved;
  };
  const Case nvfp4{"nvfp4", "", "b200x8"}, fp8{"fp8", "", "b200x8"}, bf16{"bf16", "", "b200x8"};
  // The MLP's two inputs, its normalization's result and its activation, are kept in 2 bytes; attention's two in 9/16.
  EXPECT_NEAR(kept(bf16, "11024") - kept(nvfp4, "11024"), 2 * kN - 2 * kNvfp4 * kN, 4);
  EXPECT_GT(kept(bf16, "11024") - kept(fp8, "11024"), kTokens * 11024);
}

// In every recipe, for layers of any size, with tensor parallelism and recompute: fewer bits keep less, products take less time,
// and recompute keeps no more.
TEST(Recipes, FewerBitsKeepAndTakeLess) {
  for (const int tensor : {1, 4})
    for (const char* width : {"1024", "11008"})
      for (const char* recompute : {"none", "selective", "full"}) {
        double saved = 1e18, products = 1e18;
        for (const char* precision : {"bf16", "mxfp8", "nvfp4"}) {
          const auto made =
              make(fmt::format("panpipe: 1\ncluster: b200x8\nworkload: {{model: llama, layers: 2, hidden: 4096, heads: 32, ffn: "
                               "{}, vocabulary: 32000, "
                               "sequence: 4096}}\nbatch: {{micro: 2, microbatches: 8}}\nprecision: {}\nrecompute: {}\nparallel: "
                               "{{pipeline: 1, tensor: {}, "
                               "sequence_parallel: {}}}\nframework: {{name: megatron-core, dropout: false}}\n",
                               width, precision, recompute, tensor, tensor > 1));
          const Layer layer = layer_of(made->cost());
          const std::string of = fmt::format("{} tensor {} width {} {}", precision, tensor, width, recompute);
          EXPECT_LT(layer.saved, saved) << of;
          EXPECT_LT(layer.weight_gradient.compute.base(), products) << of;
          EXPECT_LE(layer.saved_full, layer.saved) << of;
          saved = layer.saved, products = layer.weight_gradient.compute.base();
        }
      }
}

TEST(Recipes, DevicesWithoutTheWidthAreNamedWithARemedy) {
  const auto made = llama({"nvfp4", "", "h100x8"});
  const std::string fault = test::fault_of([&] { made->cost(); });
  EXPECT_THAT(
      fault, testing::HasSubstr("the device H100-SXM has no compute rate for nvfp4; its file gives fp32, tf32, bf16, fp16, fp8"));
  EXPECT_THAT(fault, testing::HasSubstr("--set cluster.device.peak.nvfp4="));
}

TEST(Recipes, NamesOfOtherProgramsAreTheirs) {
  EXPECT_EQ(find_megatron_recipe("blockwise", false)->scaling, Fp8Scaling::Blocks);
  EXPECT_EQ(find_megatron_recipe("nvfp4", true)->precision, Precision::Nvfp4);
  EXPECT_EQ(find_megatron_recipe("nvfp4", false), nullptr);
  EXPECT_EQ(find_megatron_recipe("", false), nullptr) << "recipes that Megatron-LM does not have";
  EXPECT_EQ(find_torchao_recipe("rowwise")->scaling, Fp8Scaling::Rows);
  EXPECT_EQ(find_recipe(Precision::Bf16, Fp8Scaling::Rows), nullptr);
}

}  // namespace
}  // namespace panpipe
