// A framework as a list of choices: what each counts in bytes and launches, and how scenarios and files state them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "costmodel/cost/compute.hpp"
#include "tests/costmodel/cost/priced_models.hpp"

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

// The product leaves 2 bytes; a kernel reads them, reads and writes the sum's 4: 10 bytes a weight and microbatch.
TEST(GradientAccumulation, InFp32IsAKernelOfItsOwn) {
  const auto made = with(", autocast: false, gradient_accumulation: fp32");
  EXPECT_NEAR(bytes_of(*made, layer_of(made->cost()).weight_gradient.memory) / (10 * kWeights), 1, 1e-6);
  const auto fp32 = with(", autocast: false, gradient_accumulation: fp32", "tf32");
  EXPECT_DOUBLE_EQ(layer_of(fp32->cost()).weight_gradient.memory.base(), 0) << "gradients have the sum's format";
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
    const auto made = with(c.choices, c.precision, std::string("optimizer: ") + c.optimizer);
    const Breakdown step = made->model->optimizer(1000000, 0, made->degrees());
    EXPECT_EQ(step.traffic, Bytes(static_cast<std::int64_t>(c.bytes * 1e6))) << c.choices << " " << c.optimizer;
  }
}

TEST(Launches, AreTheFrameworksAndTakeItsTime) {
  GptCase c;
  c.framework = "torch-compile";
  const auto made = make_gpt(c);
  const Layer layer = layer_of(made->cost());
  // 28 + 45 of the layer; four all-reduces, each with its wait: 246 us of the A100's 31.95 us are 8 launches more.
  EXPECT_EQ(layer.forward_launches + layer.backward_launches, 28 + 45 + 4 * (1 + 8));
  EXPECT_NEAR(made->model->host_bound(Duration(0), 100, 0, made->degrees()).base(), 4.9e-3, 1e-9);
  c.framework = "{name: torch-compile, launch: 10 us, collective_launches: 3}";
  const auto counted = make_gpt(c);
  const Layer other = layer_of(counted->cost());
  EXPECT_EQ(other.forward_launches + other.backward_launches, 28 + 45 + 4 * 3);
  EXPECT_NEAR(counted->model->host_bound(Duration(0), 100, 0, counted->degrees()).base(), 1e-3, 1e-9);
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
  try {
    parse_scenario(
        "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: "
        "8}\nframework: " +
            framework + "\n",
        "F", ".");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FrameworkChoices, SayWhatIsWrong) {
  EXPECT_EQ(refusal("{name: torch-compile, atention: unfused}"),
            "F:5:34: error: unknown key 'atention', did you mean 'attention'?\n  at framework.atention\n"
            "    5 | framework: {name: torch-compile, atention: unfused}\n      |                                  ^");
  EXPECT_EQ(refusal("{name: torch-compile, attention: flsh-2}"),
            "F:5:45: error: unknown attention 'flsh-2', did you mean 'flash-2'?\n  at framework.attention\n"
            "    5 | framework: {name: torch-compile, attention: flsh-2}\n      |                                             ^\n"
            "  help: attention is one of unfused, fused-softmax, flash, flash-1, flash-2, flash-3, flash-triton and cudnn");
  EXPECT_EQ(refusal("{name: eager, attention: unfused, flash_attention: false}"),
            "F:5:46: error: 'attention' and 'flash_attention' say the same\n  at framework.flash_attention\n"
            "    5 | framework: {name: eager, attention: unfused, flash_attention: false}\n"
            "      |                                              ^\n  help: remove 'flash_attention'");
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
    return parse_scenario(head + "framework: {name: megatron" + choices + "}\n", "F", ".").framework.elementwise_factor;
  };
  EXPECT_DOUBLE_EQ(factor(", attention: unfused"), 0.55);
  EXPECT_DOUBLE_EQ(factor(", elementwise: eager"), 1);
  EXPECT_DOUBLE_EQ(factor(", elementwise: eager, elementwise_factor: 1.5"), 1.5);
}

// What a file says in the older key stays: a kernel at the calibrated rate, or Megatron's fused softmax.
TEST(FrameworkChoices, TheOlderKeyOfAttentionStaysReadable) {
  const std::string head =
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n";
  const auto kernel = [&](const char* value) {
    return parse_scenario(head + "framework: {name: torch-compile, flash_attention: " + value + "}\n", "F", ".")
        .framework.attention;
  };
  EXPECT_EQ(kernel("true"), AttentionKernel::Flash);
  EXPECT_EQ(kernel("false"), AttentionKernel::FusedSoftmax);
}

TEST(Calibrations, AKernelsRateHasTwoDirections) {
  const std::string path = testing::TempDir() + "rates_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << "panpipe: 1\nkind: calibration\nname: x\nflash_2_forward: {value: 300 TFLOP/s, source: test}\n";
  try {
    load_calibration(path, ".");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(),
              path +
                  ":4:1: error: a kernel's rate has two directions\n  at flash_2_forward\n"
                  "    4 | flash_2_forward: {value: 300 TFLOP/s, source: test}\n      | ^\n  help: add 'flash_2_backward'");
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace panpipe
