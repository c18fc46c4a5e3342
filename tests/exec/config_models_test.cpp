// Models by their config.json, every class small: cut into stages and over tensor-parallel ranks they compute what one process
// computes. Windows, caps, sinks, linear biases, parallel halves, latents, routers and experts take part in all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

class ConfigModels : public testing::TestWithParam<std::string> {};

TEST_P(ConfigModels, EqualOneProcess) {
  const Workload workload = small_config_model(GetParam());
  const Trained one = alone(workload, 4);
  EXPECT_GT(one.gradients.size(), 10U);
  EXPECT_NEAR(one.loss, std::log(96.0), 0.4) << "an untrained model knows nothing: the loss is ln(classes)";
  for (const auto& [name, gradient] : one.gradients) EXPECT_GT(gradient.abs().max().item<float>(), 0) << name << " takes part";
  for (const std::string family : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(family);
    expect_equal(one, train(workload, family, 2, 4));
  }
  if (GetParam() == "olmo2") return;  // its norm over all heads is not cut
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "over two ranks, the sequence too" : "over two ranks");
    const Workload cut = small_config_model(GetParam(), 2, sequence);
    expect_equal(one, train(cut, "gpipe", 1, 4));
  }
}

// Windows, caps, sinks and linear biases reach across the ranks' parts.
TEST_P(ConfigModels, EqualOneProcessWithSharedSequences) {
  const Workload workload = small_config_model(GetParam());
  const Trained one = alone(workload, 2);
  for (const ContextExchange exchange : {ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::Ulysses})
    for (const std::string family : {"gpipe", "zb-h1"}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(exchange), family));
      const WorkloadShape shape{.degrees = {.micro = 2, .context = 2}, .precision = Precision::Fp32, .exchange = exchange};
      const SharedModel shared = shared_model(small_config_request(GetParam()), shape);
      const int ranks = family == "gpipe" ? 1 : 2;
      expect_equal(one, train(*shared.whole.graph, plan_of(shared.part.graph, family, ranks, 2), &shared.part));
    }
}

// Of 16 tokens, a slice of eight is longer than the windows of five, one of four is shorter.
TEST_P(ConfigModels, EqualOneProcessInSlices) {
  const Workload workload = small_config_model(GetParam());
  const Trained one = alone(workload, 2);
  for (const int splits : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} slices", splits));
    const WorkloadShape shape{.degrees = {.micro = 2}, .precision = Precision::Fp32};
    const SliceGraph slices = slice_graph(small_config_request(GetParam()), shape, *workload.graph, splits);
    const Schedule schedule = make_schedule("seq-1f1b", 2, 2, {{"sequence_splits", std::to_string(splits)}});
    expect_equal(one, train(*workload.graph, plan_over(*workload.graph, schedule), &slices));
  }
}

// Sinks and linear biases are numbers by head, which tensor-parallel ranks cut too. Two key-value heads leave no heads to
// exchange.
TEST(ConfigModelsWithNumbersByHead, EqualOneProcessOverTensorParallelRanksToo) {
  for (const std::string type : {"bloom", "gpt_oss"}) {
    const WorkloadRequest request = small_config_request(type);
    const Workload workload = small_config_model(type);
    const Trained one = alone(workload, 2);
    for (const bool sequence : {false, true}) {
      WorkloadShape shape{.degrees = {.tensor = 2, .micro = 2, .sequence_parallel = sequence}, .precision = Precision::Fp32};
      SCOPED_TRACE(type + (sequence ? ", the sequence cut too" : ""));
      const Workload cut = make_workload(request, shape);
      const SliceGraph slices = slice_graph(request, shape, *cut.graph, 2);
      const Schedule schedule = make_schedule("seq-1f1b", 2, 2, {{"sequence_splits", "2"}});
      expect_equal(one, train(*cut.graph, plan_over(*cut.graph, schedule), &slices));
      shape.degrees.context = 2;
      for (const ContextExchange exchange : {ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::Ulysses}) {
        if (type == "gpt_oss" && exchange == ContextExchange::Ulysses) continue;
        shape.exchange = exchange;
        const SharedModel shared = shared_model(request, shape);
        expect_equal(one, train(*shared.whole.graph, plan_of(shared.part.graph, "gpipe", 1, 2), &shared.part));
      }
    }
  }
}

// Every class up to GPT-OSS, but BERT, whose layers are those of the built-in one.
std::vector<std::string> language_models() {
  return {"llama", "mistral", "qwen2",     "qwen3",     "gemma",       "gemma2",      "gemma3_text", "phi",
          "phi3",  "gpt2",    "gpt_neox",  "opt",       "bloom",       "falcon",      "mixtral",     "olmo2",
          "arcee", "smollm3", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss"};
}

INSTANTIATE_TEST_SUITE_P(Classes, ConfigModels, testing::ValuesIn(language_models()),
                         [](const testing::TestParamInfo<std::string>& type) { return type.param; });

}  // namespace
}  // namespace panpipe::exec
