// Parameters with numbers of their own: which they are, what the update does with them, on every cut of the model.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>

#include "costmodel/prediction/experiment.hpp"
#include "exec/engine/training/learning_rate.hpp"
#include "exec/engine/training/optimizer_groups.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

// By name: the decay (1 unless it is taken away) of each parameter of a model of one layer.
std::map<std::string, ParameterNumbers> numbers_of(const std::string& optimizer, const std::string& model = "gpt",
                                                   int tensor = 1) {
  const Folder folder;
  const std::string file = folder.write(
      "s.yaml", fmt::format("panpipe: 1\ncluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
                            "workload: {{model: {}, layers: 1, hidden: 16, heads: 2, sequence: 8, vocabulary: 48}}\n"
                            "batch: {{micro: 2, microbatches: 2}}\nparallel: {{tensor: {}}}\n{}\n",
                            tensor, model, tensor, optimizer));
  const Experiment experiment(load_scenario(file));
  std::map<std::string, ParameterNumbers> named;
  for (const auto& [root, numbers] : parameter_numbers(*experiment.workload.graph, experiment.scenario))
    named[experiment.workload.graph->tensors[root].name] = numbers;
  return named;
}

std::vector<std::string> without_decay(const std::string& no_decay, const std::string& model = "gpt") {
  std::vector<std::string> names;
  for (const auto& [name, numbers] :
       numbers_of(fmt::format("optimizer: {{name: adamw, weight_decay: 1, no_decay: {}}}", no_decay), model))
    if (numbers.weight_decay == 0) names.push_back(name);
  return names;
}

const std::vector<std::string> kNorms = {"transformer.h.0.ln_1.bias", "transformer.h.0.ln_1.weight",
                                         "transformer.h.0.ln_2.bias", "transformer.h.0.ln_2.weight",
                                         "transformer.ln_f.bias",     "transformer.ln_f.weight"};
const std::vector<std::string> kBiases = {"transformer.h.0.attn.c_attn.bias",
                                          "transformer.h.0.attn.c_proj.bias",
                                          "transformer.h.0.ln_1.bias",
                                          "transformer.h.0.ln_2.bias",
                                          "transformer.h.0.mlp.c_fc.bias",
                                          "transformer.h.0.mlp.c_proj.bias",
                                          "transformer.ln_f.bias"};

TEST(OptimizerGroups, KindsAreWhatTheModelDoesWithAParameter) {
  EXPECT_EQ(without_decay("[]"), std::vector<std::string>());
  EXPECT_EQ(without_decay("norms"), kNorms);
  EXPECT_EQ(without_decay("[biases]"), kBiases);
  EXPECT_EQ(without_decay("[embeddings]"), (std::vector<std::string>{"transformer.wpe.weight", "transformer.wte.weight"}));
  std::set<std::string> both(kNorms.begin(), kNorms.end());
  both.insert(kBiases.begin(), kBiases.end());
  const std::vector<std::string> all(both.begin(), both.end());
  EXPECT_EQ(without_decay("[norms, biases]"), all);
  EXPECT_EQ(without_decay("[vectors]"), all) << "in a GPT these are the same";
  EXPECT_EQ(without_decay("[\"*.attn.c_proj.*\", \"lm_head.weight\"]"),
            (std::vector<std::string>{"transformer.h.0.attn.c_proj.bias", "transformer.h.0.attn.c_proj.weight",
                                      "transformer.wte.weight"}))
      << "a tied parameter has each of its names";
}

TEST(OptimizerGroups, TheFirstGroupThatMatchesCounts) {
  const auto numbers = numbers_of(
      "optimizer: {name: adamw, learning_rate: 0.5, weight_decay: 0.25, no_decay: [biases], groups: [{match: \"*.mlp.*\", "
      "weight_decay: 0.125}, {match: \"*.h.0.*\", learning_rate: 0.0625}]}");
  const auto is = [&](const std::string& name, double rate, double decay) {
    EXPECT_EQ(numbers.at(name).learning_rate, rate) << name;
    EXPECT_EQ(numbers.at(name).weight_decay, decay) << name;
  };
  is("transformer.wte.weight", 0.5, 0.25);
  is("transformer.ln_f.bias", 0.5, 0);
  is("transformer.h.0.mlp.c_fc.weight", 0.5, 0.125);
  is("transformer.h.0.mlp.c_fc.bias", 0.5, 0.125);  // stated: before no_decay
  is("transformer.h.0.attn.c_attn.weight", 0.0625, 0.25);
  is("transformer.h.0.attn.c_attn.bias", 0.0625, 0);
}

TEST(OptimizerGroups, AreTheSameUnderTensorParallelism) {
  const std::string optimizer =
      "optimizer: {name: adamw, no_decay: [norms, biases, embeddings], groups: [{match: \"*.mlp.*\", learning_rate: 0.1}]}";
  EXPECT_EQ(numbers_of(optimizer, "gpt", 2), numbers_of(optimizer));
}

TEST(OptimizerGroups, UnmatchedPatternsAreRefusedAtTheirPlace) {
  const auto error = [](const std::string& optimizer) {
    const Folder folder;
    const std::string text = error_of_step(folder, small_gpt(1, 1, 1, optimizer));
    return text.substr(std::min(text.size(), text.find("s.yaml")));
  };
  EXPECT_EQ(
      error("optimizer: {name: adamw, no_decay: [norms, bias]}"),
      "s.yaml:6:44: error: no parameter of the model matches 'bias'\n"
      "  at optimizer.no_decay[1]\n"
      "    6 | optimizer: {name: adamw, no_decay: [norms, bias]}\n"
      "      |                                            ^\n"
      "  help: kinds are norms, biases, vectors and embeddings; a pattern is a whole name in which * stands for any text and ? "
      "for one letter; one of the names is 'transformer.wte.weight'");
  EXPECT_EQ(error("optimizer: {name: adamw, groups: [{match: \"*.mlp.*\", learning_rate: 1}, {match: \"transformer.wpe\", "
                  "weight_decay: 0}]}"),
            "s.yaml:6:81: error: no parameter of the model matches 'transformer.wpe'\n"
            "  at optimizer.groups[1].match\n"
            "    6 | optimizer: {name: adamw, groups: [{match: \"*.mlp.*\", learning_rate: 1}, {match: \"transformer.wpe\", "
            "weight_decay: 0}]}\n"
            "      |                                                                                 ^\n"
            "  help: a pattern is a whole name in which * stands for any text and ? for one letter; one of the names is "
            "'transformer.wpe.weight'");
}

TEST(OptimizerGroups, AdamWIsLibTorchsWithParameterGroups) {
  const auto start = [] {
    return std::vector<at::Tensor>{torch::linspace(-1, 1, 12).reshape({3, 4}), torch::linspace(0, 2, 5), torch::full({2, 2}, 0.5),
                                   torch::linspace(1, 3, 7)};
  };
  OptimizerRequest request;
  request.name = "adamw", request.learning_rate = 0.05, request.weight_decay = 0.2;
  const std::vector<at::Tensor> parameters = start();
  Optimizer optimizer(request, {}, parameters, {{0.05, 0.2}, {0.05, 0}, {0.01, 0.3}, {0.05, 0}});
  std::vector<at::Tensor> expected = start();
  for (at::Tensor& value : expected) value.requires_grad_(true);
  const auto group = [](std::vector<at::Tensor> of, double rate, double decay) {
    return torch::optim::OptimizerParamGroup(
        std::move(of), std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(rate).weight_decay(decay)));
  };
  torch::optim::AdamW reference(
      {group({expected[0]}, 0.05, 0.2), group({expected[1], expected[3]}, 0.05, 0), group({expected[2]}, 0.01, 0.3)});
  for (int step = 0; step < 5; ++step) {
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      gradients.push_back(
          torch::sin(torch::arange(parameters[i].numel(), torch::kFloat).reshape(parameters[i].sizes()) * 1.7 + step));
      expected[i].mutable_grad() = gradients[i].clone();
    }
    optimizer.step(gradients, step);
    reference.step();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(torch::allclose(parameters[i], expected[i], 1e-6, 1e-7)) << "step " << step << ", tensor " << i;
  }
}

// One update of sgd is w - rate x (g + decay x w). With the gradients that the run writes, the whole of it follows.
TEST(OptimizerGroups, TheUpdateTakesTheNumbersOfTheGroup) {
  const std::string about =
      "optimizer: {name: sgd, learning_rate: 0.5, weight_decay: 0.25, no_decay: [norms, biases], groups: "
      "[{match: \"*.wpe.weight\", learning_rate: 0.125}]}\n";
  const Trained before = train(small_gpt(1, 1, 4, "optimizer: {name: sgd, learning_rate: 0}\n"), 1);
  const Trained after = train(small_gpt(1, 1, 4, about), 1);
  ASSERT_EQ(after.losses, before.losses);
  for (const auto& [name, gradient] : after.gradients) {
    if (name == "lm_head.weight") continue;  // tied
    const at::Tensor& was = before.state.at(name);
    const bool decays = name.find("ln_") == std::string::npos && !name.ends_with("bias");
    const double rate = name == "transformer.wpe.weight" ? 0.125 : 0.5;
    const at::Tensor expected = was - (gradient + was * (decays ? 0.25 : 0)) * rate;
    EXPECT_TRUE(at::allclose(after.state.at(name), expected, 1e-5, 1e-7)) << name;
  }
}

TEST(OptimizerGroups, EveryCutTrainsTheSame) {
  const std::string about =
      "optimizer: {name: adamw, learning_rate: 0.01, weight_decay: 0.1, no_decay: [norms, biases, embeddings], groups: [{match: "
      "\"*.mlp.*\", learning_rate: 0.002}, {match: \"*.c_attn.weight\", weight_decay: 0.5}]}\n"
      "training: {warmup_steps: 2, decay: linear, decay_steps: 10, clip_gradients: 1}\n";
  const auto on = [&](int pipeline, int data, int tensor, const std::string& more, const std::string& extra = "") {
    return fmt::format(
        "panpipe: 1\ncluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
        "workload: {{model: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, vocabulary: 47}}\n"
        "batch: {{micro: 2, microbatches: {}}}\nparallel: {{pipeline: {}, data: {}, tensor: {}{}}}\n{}{}",
        pipeline * data * tensor, 8 / data, pipeline, data, tensor, more, about, extra);
  };
  const Trained one = train(on(1, 1, 1, ""));
  const Trained replicas = train(on(1, 2, 1, ""));
  // Adam divides by the root of squares near 0, so differences of rounding grow: as of any cut (training_test.cpp).
  const auto expect_near = [&](const Trained& found) {
    for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(found.losses[s], one.losses[s], 1e-4 * one.losses[s]);
  };
  expect_near(replicas);
  expect_bit_equal(train(on(1, 2, 1, ", zero: 1")).state, replicas.state);
  expect_near(train(on(2, 2, 1, ", zero: 1")));
  expect_near(train(on(2, 1, 2, "")));
  expect_near(train(on(2, 1, 1, "", "schedule: dualpipe\n")));
}

// --- courses of the rate ---

TEST(LearningRate, StaysBeforeItDecays) {
  OptimizerRequest optimizer;
  optimizer.learning_rate = 0.8;
  TrainingRequest training;
  training.decay = TrainingRequest::Decay::Linear;
  training.warmup_steps = 4, training.decay_start = 10, training.decay_steps = 20, training.minimum_learning_rate = 0.2;
  const auto rate = [&](std::int64_t update) { return learning_rate(optimizer, training, update); };
  EXPECT_DOUBLE_EQ(rate(0), 0.2);
  EXPECT_DOUBLE_EQ(rate(3), 0.8);
  EXPECT_DOUBLE_EQ(rate(4), 0.8);
  EXPECT_DOUBLE_EQ(rate(10), 0.8);
  EXPECT_DOUBLE_EQ(rate(15), 0.5);  // half-way from 0.8 to 0.2
  EXPECT_DOUBLE_EQ(rate(20), 0.2);
  EXPECT_DOUBLE_EQ(rate(1000), 0.2);
  training.decay = TrainingRequest::Decay::Cosine;
  EXPECT_DOUBLE_EQ(rate(10), 0.8);
  EXPECT_DOUBLE_EQ(rate(15), 0.5);
  // A parameter with a quarter of the rate has a quarter of it all along.
  for (const int update : {0, 3, 7, 12, 15, 19, 30})
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, training, update, 0.2), rate(update) / 4) << update;
}

TEST(LearningRate, FallsAsTheInverseSquareRoot) {
  OptimizerRequest optimizer;
  optimizer.learning_rate = 0.8;
  TrainingRequest training;
  training.decay = TrainingRequest::Decay::InverseSqrt;
  training.warmup_steps = 4;
  const auto rate = [&](std::int64_t update) { return learning_rate(optimizer, training, update); };
  EXPECT_DOUBLE_EQ(rate(1), 0.4);
  EXPECT_DOUBLE_EQ(rate(3), 0.8);
  EXPECT_DOUBLE_EQ(rate(15), 0.4);  // 0.8 sqrt(4 / 16)
  EXPECT_DOUBLE_EQ(rate(63), 0.2);
  training.minimum_learning_rate = 0.3;
  EXPECT_DOUBLE_EQ(rate(63), 0.3);
  training.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(rate(0), 0.8);
  EXPECT_DOUBLE_EQ(rate(3), 0.4);
}

}  // namespace
}  // namespace panpipe::exec
