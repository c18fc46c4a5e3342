// A framework as a list of choices: what each counts in bytes and launches, and how scenarios and files state them.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"
#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

constexpr double kBandwidth = 2039e9;
constexpr double kHidden = 2048, kTokens = 8 * 1024;
constexpr double kN = kTokens * kHidden;
// Weights and biases of the four products of a GPT layer: 12 h^2 + 9 h.
constexpr double kWeights = 12 * kHidden * kHidden + 9 * kHidden;

// A GPT on one A100-80G, fp16, with the preset timm (eager, autocast, no dropout) and single keys changed.
std::unique_ptr<Made> with(const std::string& choices, const std::string& precision = "fp16", const std::string& extra = "") {
  GptCase c;
  c.hidden = static_cast<int>(kHidden);
  c.heads = 16;
  c.sequence = 1024;
  c.micro = 8;
  c.tensor = 1;
  c.precision = precision;
  c.framework = "{name: timm" + choices + "}";
  c.extra = extra;
  auto made = make_gpt(c);
  made->cost();
  return made;
}

double rate(const Made& made) { return made.model->calibration(0).memory_efficiency * kBandwidth; }
double bytes_of(const Made& made, Duration time) { return time.base() * rate(made); }

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

// Each kernel that the step has for a parameter takes a launch; the step takes as long as host and device together do.
// 2 layers of 12 parameters, two embeddings and the last normalization: 28 tensors.
TEST(OptimizerKernel, OfALoopTakesALaunchAParameterAndOperation) {
  struct Case {
    const char *choices, *optimizer;
    double bytes, launches;  // a parameter; a tensor
  };
  for (const Case& c : {Case{", optimizer_kernel: loop", "adam", 72, 7}, Case{", optimizer_kernel: loop", "adamw", 80, 8},
                        Case{", optimizer_kernel: loop", "momentum", 44, 4}, Case{", optimizer_kernel: apex", "adam", 30, 0},
                        // A norm reads each gradient of 4 bytes, scaling reads and writes it: 12 bytes; two kernels and one.
                        Case{", optimizer_kernel: fused, gradient_clipping: loop", "adam", 30 + 12, 3},
                        Case{", optimizer_kernel: fused, zero_gradients: true", "adam", 30 + 4, 1}}) {
    const auto made =
        with(std::string(c.choices) + ", gradient_accumulation: autograd", "fp16", std::string("optimizer: ") + c.optimizer);
    const double elements = static_cast<double>(made->workload.parameters);
    const Breakdown step = made->model->optimizer(made->workload.parameters, 28, 0, made->degrees());
    const double device = c.bytes * elements / rate(*made);
    const double host = 28 * c.launches * launch_alone(made->scenario.framework, made->model->calibration(0)).base();
    EXPECT_NEAR(step.memory.base() / device, 1, 1e-6) << c.choices;
    EXPECT_NEAR((step.total - made->model->calibration(0).step).base() / std::pow(std::pow(device, 4) + std::pow(host, 4), 0.25),
                1, 1e-6)
        << c.choices;
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

// Two ranks with as many elements: the one with more tensors launches more in a loop.
TEST(OptimizerKernel, OfALoopFollowsTheTensorsOfTheRank) {
  const auto made = with(", optimizer_kernel: loop, launch: 1 ms");
  const auto host = [&](std::int64_t elements, std::int64_t tensors) {
    return (made->model->optimizer(elements, tensors, 0, made->degrees()).total - made->model->calibration(0).step).base();
  };
  EXPECT_NEAR(host(1000, 3), 3 * 7 * 1e-3, 1e-6);
  EXPECT_NEAR(host(4000, 3), 3 * 7 * 1e-3, 1e-6);
  EXPECT_NEAR(host(1000, 9), 9 * 7 * 1e-3, 1e-6);
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

// A layer of GPT has 4 products with weight and bias: 4 products; under autocast 8 casts of gradients besides, with sums in fp32
// 8 more.
TEST(Launches, OfWeightGradientsAreTheirPasss) {
  const auto weight = [](const std::string& choices) {
    const auto made = with(", attention: flash-2" + choices);
    int launches = 0;
    for (const UnitCost& unit : made->cost().units)
      if (unit.layer == 0) launches += unit.weight_gradient.host.launches;
    return launches;
  };
  EXPECT_EQ(weight(", autocast: false, gradient_accumulation: autograd"), 4);
  EXPECT_EQ(weight(", gradient_accumulation: autograd"), 4 + 8);
  EXPECT_EQ(weight(", gradient_accumulation: fp32"), 4 + 8 + 8);
  EXPECT_EQ(weight(", forward_operators: 28, backward_operators: 40"), 4);
}

// Two normalizations are a kernel each, in operators 8 each; the number that is stated is shared by the 12 operators of a layer
// that launch.
TEST(Launches, OfListedOperatorsAreTheirOwn) {
  const auto again = [](const std::string& choices) {
    const auto made = with(", attention: flash-2, autocast: false" + choices, "fp16", "recompute: {operators: [norms]}");
    int launches = 0;
    for (const UnitCost& unit : made->cost().units)
      if (unit.layer == 0) launches += unit.recompute_selective.host.launches;
    return launches;
  };
  EXPECT_EQ(again(""), 2);
  EXPECT_EQ(again(", normalization: operators"), 16);
}

// Of 28 stated launches attention has a quarter, 7, and the others share 21: 12 operators launch, 11 of them not attention. 4
// products have 21 x 4 / 11 = 7, 2 normalizations 3. The longer list never launches less, and all of them what full recompute
// does.
TEST(Launches, OfALongerListAreNoFewer) {
  const auto again = [](const std::string& recompute) {
    const auto made =
        with(", attention: flash-2, forward_operators: 28, backward_operators: 40", "fp16", "recompute: " + recompute);
    int launches = 0;
    for (const UnitCost& unit : made->cost().units)
      if (unit.layer == 0) launches += unit.recompute_selective.host.launches;
    return launches;
  };
  const int attention = again("selective"), products = again("{operators: [products]}"),
            both = again("{operators: [attention, products]}"), three = again("{operators: [attention, products, norms]}");
  EXPECT_EQ(again("{operators: [attention]}"), attention);
  EXPECT_EQ(attention, 7);
  EXPECT_GT(products, 0);
  EXPECT_EQ(both, attention + products);
  EXPECT_GT(three, both);
  EXPECT_LE(again("{operators: [attention, products, norms, elementwise]}"), 28);
}

// A stated number is a layer's, for any number of experts on a rank: one a rank, whose rows need no sorting, or two.
TEST(Launches, OfAttentionDoNotFollowTheExpertsOfARank) {
  const auto attention = [](int experts) {
    const auto made = make(R"(panpipe: 1
cluster: {file: clusters/h100x8.yaml}
workload:
  config: {model_type: mixtral, hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 1024,
           num_key_value_heads: 4, intermediate_size: 512, num_experts_per_tok: 2, num_local_experts: )" +
                           std::to_string(experts) + R"(}
  sequence: 512
batch: {micro: 1, microbatches: 8}
precision: bf16
parallel: {pipeline: 1, data: 8, expert: 8}
framework: megatron-core
)");
    for (const UnitCost& unit : made->cost().units)
      if (unit.layer == 0)
        return std::pair(unit.forward.host.launches, unit.input_gradient.host.launches + unit.weight_gradient.host.launches);
    return std::pair(0, 0);
  };
  EXPECT_GT(attention(8).first, 0);
  EXPECT_EQ(attention(8), attention(16));
}

// A multi-tensor kernel takes 320 x 65536 elements a launch, for each of Adam's 7 operations and 3 of clipping.
TEST(OptimizerKernel, OfManyTensorsTakesFewLaunches) {
  const auto made = with(", optimizer_kernel: foreach, gradient_clipping: foreach, launch: 100 us");
  const Breakdown step = made->model->optimizer(30000000, 0, 0, made->degrees());
  const double device = (72 + 12) * 30e6 / rate(*made), host = (7 + 3) * 30e6 / (320 * 65536) * 100e-6;
  EXPECT_NEAR((step.total - made->model->calibration(0).step).base() / std::pow(std::pow(device, 4) + std::pow(host, 4), 0.25), 1,
              1e-6);
}

// The operators that PyTorch 2.11 dispatches for such a block (TorchDispatchMode, views left out; a normalization's backward is
// two kernels, fused attention's three). Without autocast, unfused and causal, forward: 2 normalizations, 4 products with biases,
// 2 of attention, 4 copies, scale, mask, softmax, GELU, 2 sums = 18. Backward: 8 products, 4 sums over rows, 2 x 2
// normalizations, 4 products of attention, 3 copies and the one tensor of query, key and value, softmax, mask, scale, GELU, 2
// sums of gradients = 30. Autocast casts 8 weights and biases, 2 results of normalizations and that of softmax forward; backward
// as many, and 2 gradients of branches. Fused attention: 1 and 3 + 1 in place of 9 and 11. gelu_new: 8 and 11 in place of 1 and
// 1, under autocast 10 and 15.
TEST(Launches, AreCountedFromALayersKernels) {
  struct Case {
    const char* choices;
    int forward, backward;
  };
  for (const Case& c :
       {Case{", autocast: false", 18, 30}, Case{"", 18 + 11, 30 + 13}, Case{", autocast: false, attention: flash-2", 10, 23},
        Case{", attention: flash-2", 10 + 10, 23 + 12}, Case{", autocast: false, activation: operators", 18 + 7, 30 + 10},
        Case{", activation: operators", 29 + 9, 43 + 14},
        // Dropout of scores and of two branches, a kernel each way.
        Case{", autocast: false, dropout: true", 18 + 3, 30 + 3},
        // Compiled: normalizations with the sums before them 2, products 6, casts of parameters 8, copies 4, scores 1, GELU 1.
        // Backward: normalizations 2 x (1 + 2), 8 products, 4 x 2 for biases, casts 8, attention 4 + 4 + 1, GELU 1.
        Case{", elementwise: compiled", 22, 40},
        // Chains by hand, softmax fused: 2 + 4 + 3 + 1 + 1 + 2; 2 x 2 + 8 + 4 + 9 + 1 + 2.
        Case{", elementwise: fused, autocast: false, attention: fused-softmax", 13, 28},
        // A number that is stated goes before the count.
        Case{", forward_operators: 50, backward_operators: 75", 50, 75}}) {
    const Layer layer = layer_of(with(c.choices)->cost());
    EXPECT_EQ(layer.forward_launches, c.forward) << c.choices;
    EXPECT_EQ(layer.backward_launches, c.backward) << c.choices;
  }
}

// Llama: seven products without biases; two RMSNorms of 8 operators; query and key turned by 5 operators each; activation, gate.
// Forward under autocast, fused attention: 7 + 7 casts + 5 casts of normalized results + 16 + 10 + 2 + attention 1 + sums 2.
TEST(Launches, OfAnotherLayerAreItsOwn) {
  const auto launches = [](const std::string& model, const std::string& extra) {
    const auto made = make(
        "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: " + model +
        ", layers: 2, hidden: 1024, heads: 16, ffn: 4096, sequence: 512, vocabulary: 32000}\nbatch: {micro: 1, microbatches: 8}\n"
        "precision: bf16\nframework: {name: eager, dropout: false, attention: flash-2" +
        extra + "}\n");
    return layer_of(made->cost());
  };
  EXPECT_EQ(launches("llama", "").forward_launches, 7 + 7 + 5 + 16 + 10 + 2 + 1 + 2);
  EXPECT_EQ(launches("llama", ", normalization: kernel").forward_launches, 7 + 7 + 5 + 2 + 10 + 2 + 1 + 2);
  EXPECT_EQ(launches("gpt", "").forward_launches, 20);
}

TEST(Launches, AreTheFrameworksAndTakeItsTime) {
  GptCase c;
  const std::string stated = "{name: torch-compile-2.0, forward_operators: 28, backward_operators: 45";
  c.framework = stated + "}";
  const auto made = make_gpt(c);
  const Layer layer = layer_of(made->cost());
  // 28 + 45 of the layer; four all-reduces, each with the wait for eight hosts, 246 us by the A100's calibration.
  EXPECT_EQ(layer.forward_launches + layer.backward_launches, 28 + 45 + 4);
  EXPECT_NEAR(layer.forward_beside + layer.backward_beside, 4 * 246e-6, 4e-6);
  const double here = made->model->calibration(0).launch.base() / 32.9e-6;  // the A100's host over the presets'
  EXPECT_NEAR(made->model->host_bound(Duration(0), 100, 0, made->degrees()).base(), 4.9e-3 * here, 1e-9);
  c.framework = stated + ", launch: 10 us, collective_launches: 3}";
  const auto counted = make_gpt(c);
  const Layer other = layer_of(counted->cost());
  EXPECT_EQ(other.forward_launches + other.backward_launches, 28 + 45 + 4 * 3);
  EXPECT_NEAR(counted->model->host_bound(Duration(0), 100, 0, counted->degrees()).base(), 1e-3, 1e-9);
}

// A device's measured launch is that of presets that state none, 32.9 us where others state theirs; those scale with it. The RTX
// 3090's 28.97 us are 17.61 of eager PyTorch, which found them. Where nothing was measured, 32.9 us, the presets' own times hold.
TEST(Launches, ThatWereMeasuredOnTheDeviceWinOverThePresets) {
  const Framework eager = load_framework("eager-sdpa", ""), megatron = load_framework("megatron", "");
  const Calibration measured = load_calibration("rtx-3090", ""), assumed = load_calibration("h100-sxm", "");
  EXPECT_NEAR(launch_alone(eager, measured).base(), 17.61e-6, 1e-12);
  EXPECT_NEAR(launch_alone(megatron, measured).base(), 28.96845e-6, 1e-12);
  EXPECT_NEAR(launch_alone(eager, assumed).base(), 20e-6, 1e-12);
  EXPECT_NEAR(launch_alone(megatron, assumed).base(), 32.9e-6, 1e-12);
  Calibration fitted = assumed;
  fitted.launch = micros(65.8);
  EXPECT_NEAR(launch_alone(eager, fitted).base(), 40e-6, 1e-12);
  EXPECT_NEAR(sharded_launch(load_framework("deepspeed", ""), fitted, 1).base(), 150e-6, 1e-12);
}

// PyTorch's operators, one after another, are the same software in every preset.
TEST(Launches, OfEagerPresetsAreThoseOfPyTorch) {
  for (const char* preset : {"eager", "eager-sdpa", "eager-sdpa-chunked-loss", "deepspeed", "huggingface", "fms-fsdp", "timm",
                             "pfeife-huggingface", "pfeife-timm"})
    EXPECT_EQ(load_framework(preset, "").launch, micros(20)) << preset;
}

// 100 launches take 2 ms alone, and 7.5 ms where the hooks of ZeRO 3 come with each; lower stages have none. Other work of
// the host takes as long with hooks as without.
TEST(Launches, OfShardedParametersTakeTheirHooksTime) {
  GptCase c;
  c.framework = "{name: deepspeed, launch: 20 us, sharded_launch: 75 us}";
  const auto made = make_gpt(c);
  Degrees degrees = made->degrees();
  for (const int stage : {0, 1, 2, 3}) {
    degrees.zero = stage;
    EXPECT_NEAR(made->model->host_bound(Duration(0), 100, 0, degrees).base(), stage == 3 ? 7.5e-3 : 2e-3, 1e-9) << stage;
    EXPECT_NEAR(made->model->host_bound(Duration(0), {100, millis(1)}, 0, degrees).base(), stage == 3 ? 8.5e-3 : 3e-3, 1e-9);
  }
}

// The wait of a collective over eight ranks is the calibration's 246 us whatever a launch takes, and with the hooks of ZeRO 3: 4
// of them, and 28 + 45 + 4 launches.
TEST(Launches, TheWaitOfACollectiveIsAsLongAtEveryLaunch) {
  for (const double launch : {5.0, 9.1, 20.0, 31.95, 60.0})
    for (const double sharded : {0.0, 75.0}) {
      GptCase c;
      c.framework = fmt::format(
          "{{name: torch-compile-2.0, forward_operators: 28, backward_operators: 45, launch: {} us, sharded_launch: {} us}}",
          launch, sharded);
      const auto made = make_gpt(c);
      const Layer layer = layer_of(made->cost());
      Degrees degrees = made->degrees();
      degrees.zero = 3;
      const HostWork work(layer.forward_launches + layer.backward_launches,
                          Duration(layer.forward_beside + layer.backward_beside));
      const double expected = 77 * std::max(launch, sharded) * 1e-6 + 4 * made->model->calibration(0).collective_host.base();
      EXPECT_NEAR(made->model->host_bound(Duration(0), work, 0, degrees).base(), expected, 1e-12) << launch << " " << sharded;
    }
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

std::string refusal(const std::string& framework) {
  return test::fault_of([&] {
    parse_scenario(
        "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: "
        "8}\nframework: " +
            framework + "\n",
        "F", ".");
  });
}

TEST(FrameworkChoices, ReportWhatIsWrong) {
  EXPECT_EQ(refusal("{name: torch-compile, atention: unfused}"),
            "F:5:34: error: unknown key 'atention', did you mean 'attention'?\n  at framework.atention\n"
            "    5 | framework: {name: torch-compile, atention: unfused}\n      |                                  ^");
  EXPECT_EQ(refusal("{name: torch-compile, attention: flsh-2}"),
            "F:5:45: error: unknown attention 'flsh-2', did you mean 'flash-2'?\n  at framework.attention\n"
            "    5 | framework: {name: torch-compile, attention: flsh-2}\n      |                                             ^\n"
            "  help: attention is one of unfused, fused-softmax, flash, flash-1, flash-2, flash-3, flash-triton and cudnn");
  EXPECT_EQ(refusal("{name: megatrn}"),
            "F:5:12: error: no framework 'megatrn', did you mean 'megatron'?\n  at framework\n"
            "    5 | framework: {name: megatrn}\n      |            ^");
}

TEST(FrameworkChoices, ChangeSingleKeysAndAreWrittenBack) {
  const std::string head =
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n";
  const Scenario plain = parse_scenario(head + "framework: torch-compile\n", "F", "."),
                 scenario =
                     parse_scenario(head + "framework: {name: torch-compile, attention: unfused, launch: 20 us}\n", "F", ".");
  EXPECT_EQ(scenario.framework.attention, AttentionKernel::Unfused);
  EXPECT_EQ(scenario.framework.launch, micros(20));
  EXPECT_EQ(scenario.framework.elementwise, plain.framework.elementwise);
  EXPECT_EQ(scenario.framework.title(), "torch-compile (attention: unfused, launch: 20 us)");
  const Scenario again = parse_scenario(resolved_text(scenario), "F", ".");
  EXPECT_EQ(again.framework.attention, AttentionKernel::Unfused);
  EXPECT_EQ(again.framework.title(), scenario.framework.title());
  // Without a name: the default of the model's kind.
  EXPECT_EQ(parse_scenario(head + "framework: {dropout: false}\n", "F", ".").framework.name, "megatron");
}

TEST(FrameworkChoices, AnotherCountLeavesAFittedFactorBehind) {
  const std::string head =
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n";
  const auto factor = [&](const std::string& choices) {
    return parse_scenario(head + "framework: {name: stp" + choices + "}\n", "F", ".").framework.replicated_factor;
  };
  EXPECT_DOUBLE_EQ(factor(", attention: unfused"), 9.3);
  EXPECT_DOUBLE_EQ(factor(", elementwise: eager"), 0) << "as the other traffic";
  EXPECT_DOUBLE_EQ(factor(", elementwise: eager, replicated_factor: 1.5"), 1.5);
}

TEST(Calibrations, AKernelsRateHasTwoDirections) {
  const std::string path = test::scratch().write(
      "rates.yaml", "panpipe: 1\nkind: calibration\nname: x\nflash_2_forward: {value: 300 TFLOP/s, source: test}\n");
  EXPECT_EQ(test::fault_of([&] { load_calibration(path, "."); }),
            path +
                ":4:1: error: a kernel's rate has two directions\n  at flash_2_forward\n"
                "    4 | flash_2_forward: {value: 300 TFLOP/s, source: test}\n      | ^\n  help: add 'flash_2_backward'");
}

}  // namespace
}  // namespace panpipe
