// A trainer around its steps, over NCCL: shuffled data of 32 bits, groups of parameters, evaluations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

// Eighty samples and the last label; a step takes eight.
std::string with_tokens(const std::string& text) {
  const std::string scenario = scenario_file(text);
  std::ofstream file(std::filesystem::path(scenario).replace_filename("tokens"), std::ios::binary);
  for (std::uint32_t i = 0; i <= 80 * 8; ++i) {
    const std::uint32_t token = (i * i + 3 * i) % 48;
    file.write(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return scenario;
}

TEST(Trainer, EvaluatesAndShufflesAsOnTheCpu) {
  const std::string about =
      "data: {tokens: tokens, width: 32, shuffle: true, held_out: 30 %}\n"
      "optimizer: {name: adamw, learning_rate: 0.01, no_decay: [norms, biases], groups: [{match: '*.mlp.*', weight_decay: "
      "0.5}]}\n";
  const std::string evaluates = about + "training: {evaluate: {every: 1, steps: 2}}\n", steps = "--steps 3 ";
  const Trained cpu = train_on_cpu(with_tokens(small_gpt({1}, evaluates)), steps);
  ASSERT_EQ(cpu.metrics.size(), 3u);
  for (const Ranks& ranks : {Ranks{2}, {1, 1, 2}, {2, 2}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", ranks.pipeline, ranks.data, ranks.tensor));
    const int microbatches = 4 / ranks.data;
    const Trained gpu = train_on_stand_in(with_tokens(small_gpt(ranks, evaluates, 2, microbatches)), steps);
    expect_same_training(gpu, cpu, 1e-4);  // adam divides by roots of squares near 0
    ASSERT_EQ(gpu.metrics.size(), 3u);
    for (std::size_t s = 0; s < 3; ++s) {
      const double expected = cpu.metrics[s].at("validation_loss").get<double>();
      EXPECT_NEAR(gpu.metrics[s].at("validation_loss").get<double>(), expected, 1e-4 * expected);
      EXPECT_EQ(gpu.metrics[s].at("epoch"), cpu.metrics[s].at("epoch"));
    }
    const Trained without = train_on_stand_in(with_tokens(small_gpt(ranks, about, 2, microbatches)), steps);
    ASSERT_EQ(without.metrics.size(), 3u);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(without.metrics[s].at("loss"), gpu.metrics[s].at("loss"));
  }
}

}  // namespace
}  // namespace panpipe::test
