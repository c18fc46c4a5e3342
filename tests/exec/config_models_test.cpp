// Models by their config.json, every class small: cut into stages and over tensor-parallel ranks they compute what one process
// computes. Windows, caps, sinks, linear biases, parallel halves, latents, routers and experts take part in all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "costmodel/workload/model_config.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

class ConfigModels : public testing::TestWithParam<std::string> {};

TEST_P(ConfigModels, EqualOneProcess) {
  const Workload workload = small_config_model(GetParam());
  const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 4));
  EXPECT_GT(one.gradients.size(), 10U);
  EXPECT_NEAR(one.loss, std::log(96.0), 0.4) << "an untrained model knows nothing: the loss is ln(classes)";
  for (const auto& [name, gradient] : one.gradients) EXPECT_GT(gradient.abs().max().item<float>(), 0) << name << " takes part";
  for (const std::string family : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(family);
    expect_equal(one, train(*workload.graph, plan_of(*workload.graph, family, 2, 4)));
  }
  if (GetParam() == "olmo2") return;  // its norm over all heads is not cut
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "over two ranks, the sequence too" : "over two ranks");
    const Workload cut = small_config_model(GetParam(), 2, sequence);
    expect_equal(one, train(*cut.graph, plan_of(*cut.graph, "gpipe", 1, 4)));
  }
}

// Windows and caps reach across the ranks' parts; a bias that differs by head cannot follow heads that are exchanged.
TEST_P(ConfigModels, EqualOneProcessWithSharedSequences) {
  const Workload workload = small_config_model(GetParam());
  const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 2));
  for (const ContextExchange exchange : {ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::Ulysses}) {
    SCOPED_TRACE(static_cast<int>(exchange));
    const WorkloadShape shape{.microbatch = 2, .precision = Precision::Fp32, .context_degree = 2, .exchange = exchange};
    const auto train_shared = [&] {
      const SharedModel shared = shared_model(small_config_request(GetParam()), shape);
      return train(*shared.whole.graph, plan_of(shared.part.graph, "gpipe", 1, 2), &shared.part);
    };
    const bool heads_differ = GetParam() == "bloom" && exchange == ContextExchange::Ulysses;
    std::string refusal;
    if (heads_differ)
      refusal =
          "error: transformer.h.0.self_attention: linear biases differ from head to head, and heads are exchanged, which the "
          "executor "
          "does not do with parts of a sequence; run with context_exchange ring or all-gather";
    if (GetParam() == "gpt_oss")
      refusal = fmt::format(
          "error: model.layers.0.self_attn: attention has sinks, which the executor does not do with parts of a sequence; run {} "
          "with "
          "parallel.context 1",
          workload.graph->name);
    if (refusal.empty()) {
      expect_equal(one, train_shared());
      continue;
    }
    try {
      train_shared();
      ADD_FAILURE() << "not refused";
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), refusal);
    }
  }
}

std::vector<std::string> language_models() {
  std::vector<std::string> types = model_config_types();
  std::erase(types, "bert");  // the layers of the built-in one, which has these tests
  return types;
}

INSTANTIATE_TEST_SUITE_P(Classes, ConfigModels, testing::ValuesIn(language_models()),
                         [](const testing::TestParamInfo<std::string>& type) { return type.param; });

}  // namespace
}  // namespace panpipe::exec
