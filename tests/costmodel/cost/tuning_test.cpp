// LoRA and frozen parameters: what is trained, kept and computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

constexpr double kHidden = 4096, kKeys = 1024, kWidth = 14336, kTokens = 2048;
// Llama 3 8B: query, key, value, output | gate, up, down.
constexpr double kProducts = 2 * kHidden * kHidden + 2 * kHidden * kKeys + 3 * kHidden * kWidth;

std::unique_ptr<Made> llama(const std::string& tuning, int tensor = 1) {
  return make(
      "panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/llama-3-8b.json, layers: 2, sequence: 2048" +
      tuning + "}\nbatch: {micro: 1, microbatches: 4}\nprecision: bf16\nparallel: {pipeline: 1, tensor: " +
      std::to_string(tensor) + "}\nframework: {name: megatron-core, attention: flash-3}\n");
}

struct Parameters {
  double trained = 0, frozen = 0;  // elements, bytes
};
Parameters parameters(const Made& made) {
  Parameters sum;
  for (const UnitCost& unit : made.cost().units)
    for (const ParameterUse& use : unit.parameters) {
      sum.trained += static_cast<double>(use.elements);
      sum.frozen += static_cast<double>(use.frozen.base());
    }
  return sum;
}

// r (in + out) for each target: query 16 (4096 + 4096), value 16 (4096 + 1024). The frozen model keeps 2 bytes a parameter.
TEST(Lora, TrainsTwoFactorsATarget) {
  const auto plain = llama(""), made = llama(", lora: {rank: 16, alpha: 32, targets: [q_proj, v_proj]}");
  const double factors = 2 * 16 * (2 * kHidden + kHidden + kKeys);
  EXPECT_EQ(made->workload.trained_parameters, static_cast<std::int64_t>(factors));
  EXPECT_DOUBLE_EQ(parameters(*made).trained, factors);
  EXPECT_DOUBLE_EQ(parameters(*made).frozen, 2 * parameters(*plain).trained);
  const auto all = llama(", lora: {rank: 8, targets: all-linear}");
  EXPECT_DOUBLE_EQ(parameters(*all).trained, 2 * 8 * (2 * 2 * kHidden + 2 * (kHidden + kKeys) + 3 * (kHidden + kWidth)));
}

// Of a column-parallel target the first factor is whole on each rank, of a row-parallel one the second.
TEST(Lora, IsCutWithItsTarget) {
  const double r = 16, t = 4;
  const auto trained = [&](const char* target) {
    return parameters(*llama(std::string(", lora: {rank: 16, targets: [") + target + "]}", 4)).trained / 2;
  };
  EXPECT_DOUBLE_EQ(trained("up_proj"), r * (kHidden + kWidth / t));
  EXPECT_DOUBLE_EQ(trained("down_proj"), r * (kWidth / t + kHidden));
}

// Weight gradients are those of the factors, two operations a token and element; input gradients run through the frozen weights
// too, but in the first block not through those that read its input, which nothing trained made: of the targets' query and value
// the input has none, and neither has the key's, nor the factors' first.
TEST(Lora, ComputesNoGradientOfFrozenWeights) {
  const auto plain = llama(""), made = llama(", lora: {rank: 16, targets: [q_proj, v_proj]}");
  const double factors = 16 * (2 * kHidden + kHidden + kKeys);
  const Layer second = layer_of(made->cost(), 1), before = layer_of(plain->cost(), 1);
  EXPECT_DOUBLE_EQ(second.weight_gradient.work.base(), 2 * kTokens * factors);
  EXPECT_DOUBLE_EQ(second.forward.work.base() - before.forward.work.base(), 2 * kTokens * factors);
  EXPECT_DOUBLE_EQ(second.input_gradient.work.base() - before.input_gradient.work.base(), 2 * kTokens * factors);
  const Layer first = layer_of(made->cost(), 0);
  const double spared = kHidden * (kHidden + 2 * kKeys) + 2 * 16 * kHidden;
  EXPECT_DOUBLE_EQ(second.input_gradient.work.base() - first.input_gradient.work.base(), 2 * kTokens * spared);
  EXPECT_LT(second.saved, before.saved) << "frozen products keep no input";
}

// Eager PyTorch runs the scale as a kernel of its own, which reads and writes the target's result in 2 bytes; the sum reads two
// and writes one: 10 bytes and two launches in addition to the two products', of which the second writes the result and reads its
// factor of 16 columns.
TEST(Lora, ScalesInAnOperatorOfItsOwn) {
  const auto forward = [](const std::string& tuning) {
    return layer_of(make("panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/llama-3-8b.json, layers: 2, "
                         "sequence: 2048" +
                         tuning +
                         "}\nbatch: {micro: 1, microbatches: 4}\nprecision: bf16\nparallel: {pipeline: 1}\n"
                         "framework: {name: eager-sdpa, autocast: false}\n")
                        ->cost(),
                    1);
  };
  const Layer plain = forward(""), query = forward(", lora: {rank: 16, targets: [q_proj]}");
  EXPECT_EQ(query.forward_launches - plain.forward_launches, 2 + 2);
  const Layer value = forward(", lora: {rank: 16, targets: [v_proj]}");
  const auto elements = [](const Layer& layer) { return static_cast<double>(layer.forward.traffic.base()); };
  EXPECT_DOUBLE_EQ(elements(query) - elements(value), (kHidden - kKeys) * (kTokens * (10 + 2) + 2 * 16));
}

// Dropout reads what the first factor would, and writes it and a mask of a byte; its backward reads the gradient and the mask:
// 5 bytes an element and a launch either way. Each target has its own, and keeps mask and result, 3 bytes, where both kept one
// input of 2. The base's own dropout, a choice of the framework, does not go by it.
TEST(Lora, DropsWhatItsFirstFactorReads) {
  const auto layer = [](const std::string& more, const std::string& framework) {
    return layer_of(make("panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/llama-3-8b.json, layers: 2, "
                         "sequence: 2048, lora: {rank: 16, targets: [q_proj, v_proj]" +
                         more + "}}\nbatch: {micro: 1, microbatches: 4}\nprecision: bf16\nparallel: {pipeline: 1}\n" +
                         "framework: {name: eager-sdpa, autocast: false" + framework + "}\n")
                        ->cost(),
                    1);
  };
  for (const std::string framework : {"", ", dropout: true"}) {
    const Layer plain = layer("", framework), dropped = layer(", dropout: 0.05", framework);
    const double elements = kTokens * kHidden;
    EXPECT_EQ(dropped.forward_launches - plain.forward_launches, 2);
    EXPECT_EQ(dropped.backward_launches - plain.backward_launches, 2);
    const auto bytes = [](const Breakdown& after, const Breakdown& before) {
      return static_cast<double>(after.traffic.base() - before.traffic.base());
    };
    EXPECT_DOUBLE_EQ(bytes(dropped.forward, plain.forward), 2 * 5 * elements);
    EXPECT_DOUBLE_EQ(bytes(dropped.input_gradient, plain.input_gradient), 2 * 5 * elements);
    EXPECT_DOUBLE_EQ(dropped.saved - plain.saved, (2 * 3 - 2) * elements);
  }
}

// PEFT makes each of a layer's seven targets four modules more, whose hooks DeepSpeed runs: (11 + 28) / 11 of the modules over
// (150 + 7 x 18) / 150 of the operators, 1.927, so 55 us of hooks an operator are 106.
TEST(Lora, HasModulesWithHooksOfTheirOwn) {
  const auto launch = [](const std::string& tuning) {
    const auto made = make("panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/llama-3-8b.json, layers: 2" +
                           tuning + "}\nbatch: {micro: 1, microbatches: 4}\nprecision: bf16\n" +
                           "parallel: {pipeline: 1, data: 8, zero: 3}\nframework: deepspeed\n");
    return made->model->host_bound(Duration(0), 1, 0, made->degrees()).base();
  };
  EXPECT_NEAR(launch(""), 75e-6, 1e-9);
  EXPECT_NEAR(launch(", lora: {rank: 8, targets: all-linear}"), (20 + 55 * (39.0 / 11) / (276.0 / 150)) * 1e-6, 1e-9);
}

// The optimizer and its gradients are the factors' alone.
TEST(Lora, TakesTheStepOfItsFactors) {
  const auto made = llama(", lora: {rank: 16, targets: [q_proj, v_proj]}");
  const std::int64_t trained = made->workload.trained_parameters;
  EXPECT_EQ(made->model->optimizer(trained, 0, 0, made->degrees()).traffic, Bytes(30 * trained));
}

// NF4: half a byte, a scale of a byte for 64 elements, one of 4 bytes for 256 scales; norms, embedding and head stay in 2 bytes.
TEST(Lora, OfAQuantizedBase) {
  const auto plain = llama(", lora: {rank: 16, targets: [q_proj]}"),
             made = llama(", lora: {rank: 16, targets: [q_proj], base: nf4}");
  const double width = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  EXPECT_NEAR(parameters(*plain).frozen - parameters(*made).frozen, 2 * kProducts * (2 - width), 32);
  // Unpacked for each product that reads it: read, and written in 2 bytes.
  const auto bytes = [&](const Made& one, Breakdown Layer::*pass) {
    return (layer_of(one.cost(), 1).*pass).memory.base() * one.scenario.cluster.types[0].memory_bandwidth.base() *
           one.model->calibration(0).memory_efficiency;
  };
  for (const auto pass : {&Layer::forward, &Layer::input_gradient})
    EXPECT_NEAR((bytes(*made, pass) - bytes(*plain, pass)) / (kProducts * (width + 2)), 1, 1e-6);
}

// Software of before 2026 unpacks 3.0e9 elements a second on each of an A100's 108 multiprocessors, 0.82 TB/s, less than half of
// what its memory does; 2.1 times the bytes' time is the most. An RTX 4090's 128 would do 0.97 TB/s, more than its memory.
TEST(Lora, OldKernelsUnpackAsFastAsTheirMultiprocessors) {
  const auto seconds = [](const char* cluster, const std::string& base, const char* software) {
    return layer_of(make(std::string("panpipe: 1\ncluster: clusters/") + cluster +
                         ".yaml\nworkload: {config: workloads/llama-3-8b.json, layers: 2, lora: {rank: 16, targets: [q_proj], "
                         "base: " +
                         base + "}}\nbatch: {micro: 1, microbatches: 4}\nprecision: bf16\nparallel: {pipeline: 1}\n" +
                         "framework: {name: eager-sdpa, software: " + software + "}\n")
                        ->cost(),
                    1)
        .forward.memory.base();
  };
  const auto unpacked = [&](const char* cluster, const char* software) {
    return seconds(cluster, "nf4", software) - seconds(cluster, "bf16", software);
  };
  EXPECT_NEAR(unpacked("dgx-a100-80g", "2024") / unpacked("dgx-a100-80g", "0"), 2.1, 1e-6);
  EXPECT_DOUBLE_EQ(unpacked("rtx4090x8", "2024"), unpacked("rtx4090x8", "0"));
}

// GPT-OSS-20B's experts have biases of (experts, width), which do not depend on the weights' format: 32 experts on E ranks take
// 1/E of the bytes, in 4 and in 8 bits. Two layers of 32 experts: up 2 x 2880 x 2880 and down 2880 x 2880 weights, biases 3 x
// 2880 of 2 bytes. FP8 keeps two copies of a byte of each weight.
TEST(Experts, AreInTheSameFormatOnAnyNumberOfRanks) {
  const auto experts = [](int ranks, const std::string& workload, const std::string& precision) {
    const auto made = make(fmt::format(R"(panpipe: 1
cluster: {{file: clusters/h100x8.yaml, nodes: 4}}
workload: {{config: workloads/gpt-oss-20b.json, sequence: 1024, layers: 2{}}}
batch: {{micro: 1, microbatches: 1}}
precision: {}
parallel: {{pipeline: 1, data: 32, expert: {}}}
framework: megatron-core
)",
                                       workload, precision, ranks));
    double bytes = 0;
    for (const UnitCost& unit : made->cost().units)
      for (const ParameterUse& use : unit.parameters)
        if (use.experts) bytes += static_cast<double>((use.frozen + use.copies).base());
    return bytes * ranks;
  };
  const double weights = 2 * 32 * 3.0 * 2880 * 2880, biases = 2 * 32 * 3.0 * 2880, width = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  for (const int ranks : {2, 4, 8, 16, 32}) {
    EXPECT_NEAR(experts(ranks, ", lora: {rank: 16, targets: [q_proj], base: nf4}", "bf16"), weights * width + 2 * biases,
                8.0 * ranks)
        << ranks;
    EXPECT_NEAR(experts(ranks, "", "fp8"), 2 * weights, 8.0 * ranks) << ranks;
  }
}

// Half of the model's parameters by name.
TEST(Frozen, ParametersThatMatchAreNotTrained) {
  const auto plain = llama(""), made = llama(", frozen: [\"*.mlp.*\", \"model.embed_tokens.weight\"]");
  const double frozen = 2 * 3 * kHidden * kWidth + 128256 * kHidden;
  EXPECT_DOUBLE_EQ(parameters(*plain).trained - parameters(*made).trained, frozen);
  EXPECT_DOUBLE_EQ(parameters(*made).frozen, 2 * frozen);
  EXPECT_DOUBLE_EQ(layer_of(plain->cost(), 1).weight_gradient.work.base() - layer_of(made->cost(), 1).weight_gradient.work.base(),
                   2 * kTokens * 3 * kHidden * kWidth);
}

TEST(Frozen, WordsThatNameNothingAreErrors) {
  const auto message = [](const std::string& tuning) { return test::fault_of([&] { llama(tuning); }); };
  EXPECT_THAT(
      message(", lora: {rank: 16, targets: [q_poj]}"),
      HasSubstr("lora: the model has no product 'q_poj', did you mean 'q_proj'?; it has down_proj, gate_proj, k_proj, lm_head, "
                "o_proj, q_proj, up_proj and v_proj, or 'all-linear'"));
  EXPECT_THAT(message(", lora: {rank: 16, targets: [q_proj], dropout: 1}"), HasSubstr("a dropout of 1 leaves nothing"));
  EXPECT_THAT(message(", frozen: [\"transformer.*\"]"), HasSubstr("frozen: no parameter of the model matches 'transformer.*'"));
  EXPECT_THAT(message(", frozen: [\"*\"]"), HasSubstr("every parameter is frozen: there is nothing to train"));
}

}  // namespace
}  // namespace panpipe
