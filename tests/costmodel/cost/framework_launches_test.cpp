// What the host launches under the choices of a framework, and how long that takes.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"
#include "tests/costmodel/cost/framework_case.hpp"

namespace panpipe {
namespace {

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

}  // namespace
}  // namespace panpipe
