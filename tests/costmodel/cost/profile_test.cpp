// Framework presets and calibrations: every shipped file loads and names a source for every number.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/input/reader.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

std::vector<std::string> shipped(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_directory() + "/" + folder))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Frameworks, EveryShippedOneLoads) {
  const std::vector<std::string> names = shipped("frameworks");
  EXPECT_GE(names.size(), 25U);
  for (const auto& name : names) {
    const Framework framework = load_framework(name, "");
    EXPECT_EQ(framework.name, name);
    EXPECT_GE(framework.sources.size(), 8U);
    for (const auto& [key, source] : framework.sources) EXPECT_FALSE(source.empty()) << key;
  }
  EXPECT_TRUE(is_fused(load_framework("llm-foundry", "").attention));
  EXPECT_EQ(load_framework("eager", "").forward_operators, 0) << "counted";
  EXPECT_EQ(load_framework("megatron", "").forward_operators, 28);
}

// Kernels and bytes are counted from choices; a factor would be what was left over in somebody's runs. llm-foundry and
// megatron-deepspeed hold one (docs/models/calibration.md).
TEST(Frameworks, OfSeveralGpusHoldNoFittedFactor) {
  for (const std::string name : {"megatron", "megatron-core", "megatron-zb", "nemo", "nanotron", "fms-fsdp", "torchtitan",
                                 "deepspeed", "sagemaker", "llm.c"}) {
    const Framework framework = load_framework(name, "");
    for (const std::string key : {"elementwise_factor", "replicated_factor", "score_factor"})
      EXPECT_EQ(framework.sources.count(key), 0U) << name << " " << key;
    for (const std::string key : {"attention", "elementwise", "loss"})
      EXPECT_EQ(framework.sources.count(key), 1U) << name << " " << key;
  }
}

TEST(Calibrations, EveryShippedOneLoads) {
  const auto names = shipped("calibrations");
  EXPECT_GE(names.size(), 5U);
  for (const auto& name : names) {
    const Calibration c = load_calibration(name, "");
    EXPECT_EQ(c.name, name);
    EXPECT_GE(c.sources.size(), 15U);
    EXPECT_LE(c.gemm_efficiency, 1.05);
  }
  EXPECT_NEAR(load_calibration("a100-80g-sxm", "").launch.base(), 33e-6, 5e-6);
}

TEST(Calibrations, OneProcessForAllRanksLaunchesForThoseAtWork) {
  // Eight ranks, eight microbatches: 8 x 8 / (8 + 7) = 64/15 ranks are at work on average, so a launch takes 64/15 times its own
  // time. Four ranks: 4 x 8 / 11.
  const Scenario scenario = parse_scenario(
      "panpipe: 1\ncluster: {file: clusters/rtx3090x8.yaml, device: {calibration: rtx-3090-fp32}}\nworkload: {model: gpt2}\n"
      "batch: {micro: 1, microbatches: 8}\nschedule: pfeife\nframework: pfeife-huggingface\n",
      "shared", ".");
  const Workload workload = make_workload(scenario);
  const CostModel model(scenario, workload);
  const auto launch = [&](int ranks) {
    return model.host_bound(Duration(0), 1, 0, {.pipeline = ranks, .microbatches = 8}).base();
  };
  const double own = load_calibration("rtx-3090-fp32", "").launch.base() * 20 / 32.9;  // eager PyTorch's
  EXPECT_NEAR(launch(1), own, 1e-12);
  EXPECT_NEAR(launch(8), own * 64 / 15, 1e-12);
  EXPECT_NEAR(launch(4), own * 32 / 11, 1e-12);
}

TEST(Calibrations, ADataSheetAloneGetsTheAPrioriValues) {
  DeviceType type;
  type.name = "X1";
  const Calibration c = calibration_for(type);
  EXPECT_EQ(c.name, "X1: data sheet, a-priori efficiencies");
  EXPECT_DOUBLE_EQ(c.gemm_efficiency, 0.85);
}

TEST(Frameworks, UnknownNamesAreAnswered) {
  EXPECT_EQ(test::fault_of([&] { load_framework("megatrn", ""); }), "error: no framework 'megatrn', did you mean 'megatron'?");
  EXPECT_EQ(test::fault_of([&] { load_framework("jax", ""); }),
            fmt::format("error: no framework 'jax'; there are {}", fmt::join(shipped("frameworks"), ", ")));
  EXPECT_EQ(test::fault_of([&] { load_framework("./nowhere.yaml", "/tmp"); }),
            "error: framework file './nowhere.yaml' does not exist");
}

}  // namespace
}  // namespace panpipe
