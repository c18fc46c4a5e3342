// How scenarios and files state the choices of a framework.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/cost/compute.hpp"
#include "costmodel/cost/launch.hpp"
#include "costmodel/profile/calibration.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "tests/costmodel/cost/framework_case.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& framework) {
  return test::fault_of([&] {
    parse_scenario(
        "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: "
        "8}\nframework: " +
            framework + "\n",
        "F", ".");
  });
}

TEST(FrameworkChoices, ReportWhatIsWrong) {
  EXPECT_EQ(refusal("{name: torch-compile, atention: unfused}"),
            "F:5:34: error: unknown key 'atention', did you mean 'attention'?\n  at framework.atention\n"
            "    5 | framework: {name: torch-compile, atention: unfused}\n      |                                  ^");
  EXPECT_EQ(refusal("{name: torch-compile, attention: flsh-2}"),
            "F:5:45: error: unknown attention 'flsh-2', did you mean 'flash-2'?\n  at framework.attention\n"
            "    5 | framework: {name: torch-compile, attention: flsh-2}\n      |                                             ^\n"
            "  help: attention is one of unfused, fused-softmax, flash, flash-1, flash-2, flash-3, flash-triton and cudnn");
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

TEST(FrameworkChoices, WhatAPresetDoesNotStateIsItsBases) {
  const test::TemporaryFolder folder;
  const auto written = [&](const std::string& name, const std::string& keys) {
    return folder.write(name + ".yaml", "panpipe: 1\nkind: framework\nname: " + name + "\n" + keys);
  };
  const std::string own = written("own", "base: eager-sdpa\nlaunch: {value: 10 us, source: measured}\n");
  const Framework made = load_framework(own, ""), base = load_framework("eager-sdpa", "");
  EXPECT_EQ(made.name, "own");
  EXPECT_EQ(made.launch, micros(10));
  EXPECT_EQ(made.sources.at("launch"), "measured");
  EXPECT_EQ(made.attention, base.attention);
  EXPECT_EQ(made.sources.at("attention"), base.sources.at("attention"));
  EXPECT_NE(made.attention, Framework().attention);
  const auto refused = [](const std::string& file) { return test::fault_of([&] { load_framework(file, ""); }); };
  EXPECT_THAT(refused(written("third", "base: own.yaml\n")),
              HasSubstr("own.yaml:4:7: error: this preset is the base of another"));
  EXPECT_THAT(refused(written("itself", "base: itself.yaml\n")), HasSubstr("such a one has no base itself"));
  EXPECT_THAT(refused(written("none", "base: eager-spda\n")),
              HasSubstr("none.yaml:4:7: error: no framework 'eager-spda', did you mean 'eager-sdpa'?"));
}

TEST(FrameworkChoices, AnotherCountLeavesAFittedFactorBehind) {
  const std::string head =
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n";
  const auto factor = [&](const std::string& choices) {
    return parse_scenario(head + "framework: {name: stp" + choices + "}\n", "F", ".").framework.replicated_factor;
  };
  EXPECT_DOUBLE_EQ(factor(", attention: unfused"), 9.3);
  EXPECT_DOUBLE_EQ(factor(", elementwise: eager"), 0) << "as the other traffic";
  EXPECT_DOUBLE_EQ(factor(", elementwise: eager, replicated_factor: 1.5"), 1.5);
}

TEST(Calibrations, AKernelsRateHasTwoDirections) {
  const std::string path = test::scratch().write(
      "rates.yaml", "panpipe: 1\nkind: calibration\nname: x\nflash_2_forward: {value: 300 TFLOP/s, source: test}\n");
  EXPECT_EQ(test::fault_of([&] { load_calibration(path, "."); }),
            path +
                ":4:1: error: a kernel's rate has two directions\n  at flash_2_forward\n"
                "    4 | flash_2_forward: {value: 300 TFLOP/s, source: test}\n      | ^\n  help: add 'flash_2_backward'");
}

// A named loss holds its own bytes a logit, unless a preset or a scenario states them.
TEST(Loss, ANamedLossHoldsItsOwnBytes) {
  const auto live = [](const std::string& choices) { return with(choices)->scenario.framework.loss_live_bytes_per_logit; };
  EXPECT_EQ(load_framework("eager-sdpa", "").loss_live_bytes_per_logit, 12);
  EXPECT_EQ(load_framework("megatron-core", "").loss_live_bytes_per_logit, 6);
  EXPECT_EQ(live(""), load_framework("timm", "").loss_live_bytes_per_logit);
  EXPECT_EQ(live(", loss: compiled"), 4);
  EXPECT_EQ(live(", loss: fused, loss_live_bytes_per_logit: 2"), 2);
}

}  // namespace
}  // namespace panpipe
