// What the choices of a framework count in bytes: kernels, casts, masks, sums of gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"
#include "tests/costmodel/cost/framework_case.hpp"

namespace panpipe {
namespace {

// r = 4 bytes (fp32 under autocast), e = 2. N = tokens x hidden, ffn 4 x hidden.
// Forward, a kernel per operator: 2 normalizations r + r = 8 N each, 2 casts of their results r + e = 6, 2 residual sums r + e +
// r = 10, GELU (2 + 2) x 4 = 16, the context in another order 4: 68 N; and each weight cast from 4 to 2 bytes: 6. Backward:
// normalizations (3 + 2) r = 20, casts 6, the branch's gradient cast 6, two gradients of each residual summed 3 r = 12; GELU 6 x
// 4 = 24, biases (3 + 1 + 4 + 1) x 2 = 18, layout 16: 2 x 44 + 58 = 146 N; and each weight's gradient cast: 6.
TEST(Elementwise, EagerUnderAutocastCountsAKernelPerOperator) {
  const auto made = with(", attention: flash-2");
  const Layer layer = layer_of(made->cost());
  EXPECT_NEAR(bytes_of(*made, layer.forward.memory) / (68 * kN + 6 * kWeights), 1, 0.003);
  EXPECT_NEAR(bytes_of(*made, layer.input_gradient.memory) / (146 * kN), 1, 0.003);
  EXPECT_NEAR(bytes_of(*made, layer.weight_gradient.memory) / (6 * kWeights), 1, 0.003);
}

// Without autocast every element has 2 bytes and nothing is cast. Forward: 2 x 4 + 2 x 6 + 16 + 4 = 40 N. Backward: 2 x (10 + 6)
// + 24 + 18 + 16 = 90 N: the count of fused kernels without dropout.
TEST(Elementwise, EagerWithoutAutocastMovesTwoBytesAnElement) {
  const auto made = with(", attention: flash-2, autocast: false"), pure = with(", attention: flash-2", "fp16-pure"),
             fused = with(", attention: flash-2, autocast: false, elementwise: fused");
  for (const Made* one : {made.get(), pure.get()}) {
    const Layer layer = layer_of(one->cost());
    EXPECT_NEAR(bytes_of(*one, layer.forward.memory) / (40 * kN), 1, 0.003);
    EXPECT_NEAR(bytes_of(*one, layer.input_gradient.memory) / (90 * kN), 1, 0.003);
    EXPECT_DOUBLE_EQ(layer.weight_gradient.memory.base(), 0);
  }
  const double scale = made->model->calibration(0).elementwise_scale;
  EXPECT_NEAR(bytes_of(*fused, layer_of(fused->cost()).forward.memory) / (scale * 40 * kN), 1, 0.003);
  EXPECT_NEAR(bytes_of(*fused, layer_of(fused->cost()).input_gradient.memory) / (scale * 90 * kN), 1, 0.003);
}

// Compiled: a normalization finds its input where the sum before it was made, and leaves 2 bytes: 2 x (10 + 2) + 16 + 4 = 44 N.
// Backward: normalization and its weights read gradient and input twice, 2 x (2 + 4) = 12; the residual's other gradient read and
// the sum written 8; the branch's written 2: 2 x 22 + 24 + 18 + 16 = 102 N.
TEST(Elementwise, ACompilerFusesNormalizationsSumsAndCasts) {
  const auto made = with(", attention: flash-2, elementwise: compiled");
  const Layer layer = layer_of(made->cost());
  EXPECT_NEAR(bytes_of(*made, layer.forward.memory) / (44 * kN + 6 * kWeights), 1, 0.003);
  EXPECT_NEAR(bytes_of(*made, layer.input_gradient.memory) / (102 * kN), 1, 0.003);
}

// Eager: dropout before each of the two sums reads 2, writes 2 and a mask of 1: 10 N each way. Compiled: the mask alone, 2 N.
TEST(Elementwise, DropoutIsAKernelOrAMask) {
  for (const auto& [how, bytes] : {std::pair("eager", 10.0), std::pair("compiled", 2.0)}) {
    const std::string choices = std::string(", attention: flash-2, elementwise: ") + how;
    const auto without = with(choices), made = with(choices + ", dropout: true");
    const Layer a = layer_of(without->cost()), b = layer_of(made->cost());
    EXPECT_NEAR(bytes_of(*made, b.forward.memory - a.forward.memory) / (bytes * kN), 1, 1e-6) << how;
    EXPECT_NEAR(bytes_of(*made, b.input_gradient.memory - a.input_gradient.memory) / (bytes * kN), 1, 1e-6) << how;
  }
}

// In operators, e = 2: to fp32 6, square 8, mean 4, product 8, back 6, times the weight 4 = 36 N, one kernel under autocast 8 N.
// Backward 72 N against 20 N. Two normalizations a layer.
TEST(Normalization, InOperatorsMovesEachIntermediate) {
  const auto kernel = with(", attention: flash-2"), made = with(", attention: flash-2, normalization: operators");
  const Layer a = layer_of(kernel->cost()), b = layer_of(made->cost());
  EXPECT_NEAR(bytes_of(*made, b.forward.memory - a.forward.memory) / (2 * (36 - 8) * kN), 1, 1e-6);
  EXPECT_NEAR(bytes_of(*made, b.input_gradient.memory - a.input_gradient.memory) / (2 * (72 - 20) * kN), 1, 1e-6);
}

// Unfused, eager under autocast, a score: scaled 4, softmax 2 read and 4 written, cast 6 = 16; backward cast 6, softmax 4 + 4
// read and 2 written, scaled 4 = 20. Compiled: 2 read, 4 + 2 written; 2 + 4 read, 2 written. In bf16 throughout: 4 + 4; 4 + 6.
// Query, key and value are brought into the order of heads: 12 N. With dropout 2 x 2 + 1 each way, compiled 1.
TEST(Unfused, MovesWhatItsKernelsReadAndWrite) {
  struct Case {
    const char* choices;
    double forward, backward;
  };
  const double scores = 8.0 * 16 * 1024 * 1024;
  for (const Case& c :
       {Case{", elementwise: eager", 20, 24}, Case{", elementwise: compiled", 8, 8},
        Case{", elementwise: eager, autocast: false", 12, 14}, Case{", elementwise: compiled, autocast: false", 4, 6}}) {
    const auto flash = with(std::string(c.choices) + ", attention: flash-2"), made = with(c.choices);
    const Layer a = layer_of(flash->cost()), b = layer_of(made->cost());
    EXPECT_NEAR(bytes_of(*made, b.forward.memory - a.forward.memory) / (c.forward * scores + 12 * kN), 1, 1e-6) << c.choices;
    EXPECT_NEAR(bytes_of(*made, b.input_gradient.memory - a.input_gradient.memory) / (c.backward * scores), 1, 1e-6) << c.choices;
  }
}

// torch.nn: LayerNorm is one kernel, RMSNorm the operators.
TEST(Normalization, OfModulesIsOperatorsForRmsNormAlone) {
  const auto forward = [](const std::string& model, const std::string& normalization) {
    const auto made = make("panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: " + model +
                           ", layers: 2, hidden: 1024, heads: 16, ffn: 4096, sequence: 512, vocabulary: 32000}\nbatch: {micro: "
                           "1, microbatches: 8}\nprecision: bf16\n"
                           "framework: {name: eager, normalization: " +
                           normalization + "}\n");
    return layer_of(made->cost()).forward.memory.base();
  };
  EXPECT_DOUBLE_EQ(forward("gpt", "modules"), forward("gpt", "kernel"));
  EXPECT_DOUBLE_EQ(forward("llama", "modules"), forward("llama", "operators"));
  EXPECT_GT(forward("gpt", "operators"), forward("gpt", "kernel"));
}

// 0.5 x (1 + tanh(c (x + d x^3))), x in e = 2 bytes, everything behind the power in r = 4 under autocast. Forward: cast 6, power
// 8, times d 8, plus x 2 + 4 + 4, times c 8, tanh 8, 1 + 8, half of x 4, their product 2 + 4 + 4, cast 6: 76, one kernel moves 4.
// Backward: cast 6; product 4 + 2 + 4 and 12, cast 6; half 4; tanh 12; c 8; x, cast 6; d 8; power 8 + 8 + 12, cast 6; two sums of
// gradients 6 each: 118, one kernel moves 6. Without autocast (14 + 4) e = 36 and (19 + 9) e = 56. Four elements of each N.
TEST(Activation, InOperatorsMovesEachIntermediate) {
  struct Case {
    const char* choices;
    double forward, backward;
  };
  for (const Case& c : {Case{"", 76 - 4, 118 - 6}, Case{", autocast: false", 36 - 4, 56 - 6}}) {
    const std::string choices = std::string(", attention: flash-2") + c.choices;
    const auto kernel = with(choices), made = with(choices + ", activation: operators");
    const Layer a = layer_of(kernel->cost()), b = layer_of(made->cost());
    EXPECT_NEAR(bytes_of(*made, b.forward.memory - a.forward.memory) / (4 * c.forward * kN), 1, 1e-6) << c.choices;
    EXPECT_NEAR(bytes_of(*made, b.input_gradient.memory - a.input_gradient.memory) / (4 * c.backward * kN), 1, 1e-6) << c.choices;
  }
}

// A loss in chunks moves its forward's 68 % of 44 bytes twice, and makes the logits again in the backward.
TEST(Loss, InChunksMakesLogitsAgain) {
  const auto plain = with(""), chunked = with(", loss: chunked");
  EXPECT_DOUBLE_EQ(plain->scenario.framework.loss.bytes_per_logit, 44);
  EXPECT_DOUBLE_EQ(chunked->scenario.framework.loss.bytes_per_logit, 74);
  const UnitCost &a = plain->cost().units.back(), &b = chunked->cost().units.back();
  EXPECT_NEAR((b.input_gradient.breakdown.compute - a.input_gradient.breakdown.compute).base(),
              a.forward.breakdown.compute.base(), 1e-9);
  EXPECT_EQ(b.forward.breakdown.compute, a.forward.breakdown.compute);
}

// The product leaves 2 bytes; a kernel reads them, reads and writes the sum's 4: 10 bytes a weight and microbatch.
TEST(GradientAccumulation, InFp32IsAKernelOfItsOwn) {
  const auto made = with(", autocast: false, gradient_accumulation: fp32");
  EXPECT_NEAR(bytes_of(*made, layer_of(made->cost()).weight_gradient.memory) / (10 * kWeights), 1, 1e-6);
  const auto fp32 = with(", autocast: false, gradient_accumulation: fp32", "tf32");
  EXPECT_DOUBLE_EQ(layer_of(fp32->cost()).weight_gradient.memory.base(), 0) << "gradients have the sum's format";
}

// Of a microbatch's gradient of 2 bytes, which a kernel reads, the sum is read and written in the format in which gradients
// travel: 2 + 2 x 2, 2 + 2 x 4. An optimizer with a copy in fp32 sums there under bf16, under fp16 in the gradients' own format.
TEST(GradientAccumulation, InABufferHasTheFormatThatTravelsOrTheOptimizers) {
  const auto bytes = [](const std::string& choices, const std::string& precision) {
    const auto made = with(", autocast: false, gradient_accumulation: buffer" + choices, precision);
    return bytes_of(*made, layer_of(made->cost()).weight_gradient.memory) / kWeights;
  };
  EXPECT_NEAR(bytes(", gradient_bytes: 2", "fp16"), 6, 1e-5);
  EXPECT_NEAR(bytes(", gradient_bytes: 4", "fp16"), 10, 1e-5);
  EXPECT_NEAR(bytes(", gradient_bytes: 4", "fp16-pure"), 6, 1e-5) << "gradients travel as they are";
  EXPECT_NEAR(bytes(", gradient_bytes: 4, bf16_extra_gradient_bytes: 4", "fp16"), 6, 1e-5);
  EXPECT_NEAR(bytes(", gradient_bytes: 2, bf16_extra_gradient_bytes: 4", "bf16"), 10, 1e-5);
}

// FSDP brings a block's gradients into one flat tensor, 2 + 2, casts it to fp32 where that is reduced, 2 + 4, and divides it by a
// share of the ranks, 4 + 4: 18 bytes a weight; reduced in 2 bytes 4 and 2 + 2.
TEST(GradientAccumulation, InAFlatParameterIsGatheredCastAndDivided) {
  for (const auto& [travels, bytes] : {std::pair("4", 18.0), std::pair("2", 8.0)}) {
    const auto made = with(std::string(", autocast: false, gradient_accumulation: flat, gradient_bytes: ") + travels, "bf16");
    EXPECT_NEAR(bytes_of(*made, layer_of(made->cost()).weight_gradient.memory) / (bytes * kWeights), 1, 1e-6) << travels;
  }
}

// A cross entropy for the log casts the logits to fp32, 2 + 4, then reads and writes 4, its rows in the cache between
// the passes: 14 bytes a logit.
TEST(Loss, EachTrainingMetricIsAForwardOfTheEagerLoss) {
  const auto both = [](const Made& made) {
    const UnitCost& head = made.cost().units.back();
    return bytes_of(made, head.forward.breakdown.memory + head.input_gradient.breakdown.memory);
  };
  const auto none = with(""), two = with(", training_metrics: 2");
  EXPECT_NEAR((both(*two) - both(*none)) / (2 * 14 * kTokens * 51200), 1, 1e-6);
}

// Bytes a parameter: docs/models/compute.md. A scaler reads and writes each gradient of fp16: 8.
TEST(OptimizerKernel, MovesBytesPerParameter) {
  struct Case {
    const char *choices, *precision, *optimizer;
    double bytes;
  };
  for (const Case& c :
       {Case{"", "fp16", "adam", 72}, Case{"", "fp16", "adamw", 80}, Case{"", "fp16", "momentum", 44},
        Case{", optimizer_kernel: fused", "fp16", "adam", 30}, Case{", gradient_scaler: true", "fp16", "adam", 80},
        Case{", gradient_scaler: true", "bf16", "adam", 72}}) {
    const auto made =
        with(std::string(", gradient_accumulation: fused") + c.choices, c.precision, std::string("optimizer: ") + c.optimizer);
    const Breakdown step = made->model->optimizer(1000000, 0, 0, made->degrees());
    EXPECT_EQ(step.traffic, Bytes(static_cast<std::int64_t>(c.bytes * 1e6))) << c.choices << " " << c.optimizer;
  }
}

// ZeRO 1 divides what the step updates, 30 bytes of fused Adam and 12 of clipping, but every rank keeps whole gradients: 4 bytes
// to set them to zeros, 12 in each pass to add up, and a launch a tensor. ZeRO 2 divides these too.
TEST(OptimizerKernel, GradientsAreDividedAtTheirOwnStage) {
  const std::string choices =
      ", autocast: false, optimizer_kernel: fused, gradient_clipping: foreach, zero_gradients: true, gradient_accumulation: "
      "autograd";
  const auto made = with(choices);
  for (const auto& [zero, bytes] : {std::pair(0, 42.0 + 4), std::pair(1, 42.0 / 4 + 4), std::pair(2, 46.0 / 4)}) {
    Degrees degrees = made->degrees();
    degrees.data = 4;
    degrees.zero = zero;
    EXPECT_EQ(made->model->optimizer(1000000, 0, 0, degrees).traffic, Bytes(static_cast<std::int64_t>(bytes * 1e6))) << zero;
    EXPECT_EQ(made->model->accumulation(1000000, 1, 0, degrees).traffic, Bytes(zero < 2 ? 12000000 : 3000000)) << zero;
  }
}

// Autograd reads a gradient of 4 bytes, and reads and writes the sum: 12, but for the first pass of a step. 8 microbatches: 7 of
// 8 passes; in two slices each 15 of 16; where sums start as zeros all; one pass has nothing to add to.
TEST(Accumulation, OfAutogradIsAShareOfEveryPass) {
  const auto made = with(", gradient_accumulation: autograd"),
             zeros = with(", gradient_accumulation: autograd, zero_gradients: true");
  Degrees degrees = made->degrees();
  const auto bytes = [&](const Made& of, int splits) { return of.model->accumulation(1600, splits, 0, degrees).traffic; };
  EXPECT_EQ(bytes(*made, 1), Bytes(1600 * 12 * 7 / 8));
  EXPECT_EQ(bytes(*made, 2), Bytes(1600 * 12 * 15 / 16));
  EXPECT_EQ(bytes(*zeros, 1), Bytes(1600 * 12));
  EXPECT_EQ(bytes(*with(", gradient_accumulation: fused"), 1), Bytes(0));
  EXPECT_NEAR(made->model->accumulation(1600, 1, 0, degrees).total.base() * rate(*made), 1600 * 12 * 7 / 8.0, 1e-6);
  degrees.microbatches = 1;
  EXPECT_EQ(bytes(*made, 1), Bytes(0));
}

// The head's weight, 51200 x hidden: read, written in fp32 and its product besides, 12 bytes; a kernel that adds to fp32 10;
// FSDP's flat parameter 2 x 2 + 2 + 4 + 2 x 4 = 18; autograd's sum depends on the number of passes.
TEST(Accumulation, OfTheHeadFollowsTheChoice) {
  const auto moved = [](const char* choice) {
    const auto made = with(std::string(", autocast: false, gradient_accumulation: ") + choice);
    return bytes_of(*made, made->cost().units.back().weight_gradient.breakdown.memory);
  };
  const double weights = 51200 * kHidden;
  for (const auto& [choice, bytes] : {std::pair("fused", 12.0), std::pair("fp32", 10.0), std::pair("flat", 18.0)})
    EXPECT_NEAR(moved(choice) / (bytes * weights), 1, 1e-6) << choice;
  EXPECT_DOUBLE_EQ(moved("autograd"), 0);
}

// arXiv 2407.08608, figure 5 (causal, 4096 tokens): FlashAttention-2 319 TFLOP/s forward with heads of 128. Figure 6 and the
// mask's share: 269 backward, of 2.5 times the work. Heads of 64 without a mask: 321 of 368.
TEST(Attention, NamedKernelsRunAtPublishedRates) {
  const auto cost = [](const std::string& kernel, std::int64_t head) {
    GptCase c;
    c.cluster = "h100x8";
    c.framework = "{name: nanotron, attention: " + kernel + "}";
    const auto made = make_gpt(c);
    const DeviceRates rates = device_rates(made->scenario.cluster.types[0], made->model->calibration(0), made->scenario);
    return attention_cost({1, 4096 / head, 4096 / head, 4096, 4096, head, true}, rates);
  };
  const double work = 2.0 * 4096 * 4096 * 4096;  // 4 s^2 h, half of it under the mask
  EXPECT_NEAR(cost("flash-2", 128).forward.compute.base(), work / 319e12, 1e-12);
  EXPECT_NEAR(cost("flash-2", 128).backward.compute.base(), 2.5 * work / 269e12, 1e-12);
  EXPECT_NEAR(cost("flash-3", 128).forward.compute.base(), work / 579e12, 1e-12);
  EXPECT_NEAR(cost("flash-2", 128).forward.compute / cost("flash-2", 64).forward.compute, 321.0 / 368, 0.03);
  EXPECT_NEAR(cost("cudnn", 128).forward.compute / cost("cudnn", 64).forward.compute, 408.0 / 609, 0.01);
  // No rate is published for Triton's kernel here: the device's calibrated one.
  EXPECT_EQ(cost("flash-triton", 128).forward.compute, cost("flash", 128).forward.compute);
}

}  // namespace
}  // namespace panpipe
