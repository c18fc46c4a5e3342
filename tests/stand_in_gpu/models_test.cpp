// Models with RMSNorm and experts, and a sequence over several ranks: over NCCL on the stand-in GPU they train as on the CPU in
// one process.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

// `parallel` in the scenario's form, and the ranks that it makes.
struct Model {
  const char* name;
  std::string config;
  int ranks;
  const char* parallel;
  const char* more = "";
  double relative = kFp32;
};

void PrintTo(const Model& one, std::ostream* stream) { *stream << one.name; }

class OfConfig : public testing::TestWithParam<Model> {};

TEST_P(OfConfig, TrainsAsOnTheCpu) {
  const Model& one = GetParam();
  const std::string scenario = scenario_file(small_model(one.config, one.ranks, one.parallel, one.more));
  expect_same_training(train_on_stand_in(scenario, "--steps 2 "), train_on_cpu(scenario, "--steps 2 "), one.relative);
}

constexpr const char* kClip = "training: {clip_gradients: 0.1}\n";

INSTANTIATE_TEST_SUITE_P(
    Of, OfConfig,
    testing::Values(Model{"MixtralOverTwoExpertRanks", kMixtral, 2, "{data: 2, expert: 2}"},
                    Model{"MixtralInAPipelineAllExpertsOnOneRank", kMixtral, 2, "{pipeline: 2}"},
                    Model{"MixtralClippedUnderZeroOne", kMixtral, 4, "{data: 4, expert: 2, zero: 1}", kClip},
                    Model{"QwenMoeInAPipeline", kQwenMoe, 4, "{pipeline: 2, data: 2, expert: 2}", "schedule: zb-h1\n"},
                    Model{"QwenMoeBesideTensorRanks", kQwenMoe, 4, "{data: 2, tensor: 2, sequence_parallel: true, expert: 2}"},
                    Model{"QwenMoeMadeAgain", kQwenMoe, 2, "{data: 2, expert: 2}", "recompute: full\n"},
                    Model{"QwenMoeInBf16", kQwenMoe, 2, "{data: 2, expert: 2}", "precision: bf16\n", kBf16},
                    Model{"LlamaOverARing", kLlama, 2, "{context: 2, context_exchange: ring}"},
                    Model{"LlamaOverGatheredKeys", kLlama, 2, "{context: 2, context_exchange: all-gather}"},
                    Model{"LlamaOverUlysses", kLlama, 2, "{context: 2, context_exchange: ulysses}"},
                    Model{"MixtralOverARingAndExpertRanks", kMixtral, 2, "{context: 2, expert: 2}"},
                    Model{"LlamaUnderZeroTwo", kLlama, 2, "{data: 2, zero: 2}", kClip},
                    Model{"LlamaUnderZeroThree", kLlama, 2, "{data: 2, zero: 3}", kClip},
                    Model{"LlamaUnderZeroThreeMadeAgain", kLlama, 2, "{data: 2, zero: 3}", "recompute: full\n"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace panpipe::test
