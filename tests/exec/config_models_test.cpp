// Models by their config.json, every class small: cut into stages and over tensor-parallel ranks they compute what one process
// computes. Windows, caps, sinks, linear biases, parallel halves, latents, routers and experts take part in all of it.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/workload/model_config.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

Workload small(const std::string& type, int degree = 1, bool sequence_parallel = false) {
  return small_config_model(
      type, {.microbatch = 2, .tensor_degree = degree, .sequence_parallel = sequence_parallel, .precision = Precision::Fp32});
}

class ConfigModels : public testing::TestWithParam<std::string> {};

TEST_P(ConfigModels, EqualOneProcess) {
  const Workload workload = small(GetParam());
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
    const Workload cut = small(GetParam(), 2, sequence);
    expect_equal(one, train(*cut.graph, plan_of(*cut.graph, "gpipe", 1, 4)));
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
