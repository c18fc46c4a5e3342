#include "costmodel/scenario/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "schedule/find_family.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using test::fault_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Scenario scenario_of(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n" + more,
      "job.yaml", "", overrides);
}

TEST(Trainer, EveryFileNamesWhatExists) {
  std::map<std::string, std::string> meant_by;
  for (const std::string& name : trainer_names()) {
    SCOPED_TRACE(name);
    const Trainer trainer = load_trainer(name);
    EXPECT_EQ(trainer.name, name);
    EXPECT_FALSE(trainer.title.empty());
    EXPECT_EQ(load_framework(trainer.framework, "").name, trainer.framework);
    for (const std::string& family : trainer.schedules.value_or(std::vector<std::string>{}))
      EXPECT_NE(find_family(family), nullptr) << family;
    EXPECT_FALSE(trainer.zero.empty());
    EXPECT_FALSE(trainer.recompute.empty());
    for (const TrainerCaution& caution : trainer.cautions) {
      EXPECT_FALSE(caution.at_least.empty()) << caution.says;
      EXPECT_FALSE(caution.source.empty()) << caution.says;
    }
    EXPECT_TRUE(meant_by.emplace(name, name).second);
    for (const std::string& alias : trainer.aliases) {
      EXPECT_TRUE(meant_by.emplace(alias, name).second) << alias << " stands for two trainers";
      EXPECT_EQ(load_trainer(alias).name, name);
    }
  }
  EXPECT_THAT(meant_by, SizeIs(testing::Ge(12U)));
}

TEST(Trainer, WordsAreNamesAndAliases) {
  EXPECT_EQ(trainer_name_of("megatron"), "megatron-core");
  EXPECT_EQ(trainer_name_of("megatron-core"), "megatron-core");
  EXPECT_EQ(fault_of([] { trainer_name_of("torchtitn"); }), "error: there is no trainer 'torchtitn', did you mean 'torchtitan'?");
  EXPECT_THAT(fault_of([] { load_trainer("megatron", "newest"); }), HasSubstr("'newest' is no release"));
}

// Megatron's own sharding came with 0.11; NeMo changed its layers with 2.0.
TEST(Trainer, AReleaseDecides) {
  EXPECT_THAT(load_trainer("megatron").zero, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(load_trainer("megatron", "0.11").zero, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(load_trainer("megatron", "0.10.2").zero, ElementsAre(0, 1));
  EXPECT_FALSE(load_trainer("megatron", "0.4").context);
  EXPECT_TRUE(load_trainer("megatron", "0.20").context);  // twenty is behind five
  EXPECT_EQ(load_trainer("nemo", "1.23").framework, "nemo");
  EXPECT_EQ(load_trainer("nemo", "25.11").framework, "nemo-performance");
  EXPECT_EQ(load_trainer("nemo").framework, "nemo-performance");
  EXPECT_EQ(load_trainer("megatron", "0.12").full_title(), "Megatron-LM 0.12");
}

// Megatron-Core 0.5 is of 2024, 0.10 of 2025; NeMo's containers are named by year and month. A scenario's own year and then a
// release's go before the year of a preset.
TEST(Trainer, AReleaseHasTheSoftwareOfItsYear) {
  EXPECT_EQ(load_trainer("megatron").software, 0);
  EXPECT_EQ(load_trainer("megatron", "0.4").software, 2023);
  EXPECT_EQ(load_trainer("megatron", "0.9").software, 2024);
  EXPECT_EQ(load_trainer("megatron", "0.10").software, 0);
  EXPECT_EQ(load_trainer("nemo", "1.21").software, 2023);
  EXPECT_EQ(load_trainer("nemo", "2.0").software, 2024);
  EXPECT_EQ(load_trainer("nemo", "2.1").software, 0);
  EXPECT_EQ(load_trainer("nemo", "24.07").software, 2024);
  EXPECT_EQ(load_trainer("nemo", "25.02").software, 0);
  const auto year = [](const std::string& more) { return scenario_of(more).framework.software; };
  EXPECT_EQ(year("framework: llm-foundry\n"), 2023);
  EXPECT_EQ(year("trainer: megatron\n"), 0);
  EXPECT_EQ(year("trainer: {name: megatron, release: 0.9}\n"), 2024);
  EXPECT_EQ(year("trainer: {name: megatron, release: 0.9}\nframework: {software: 2026}\n"), 2026);
  EXPECT_EQ(year("trainer: {name: llm-foundry, release: 0.10}\n"), 2024);
  // A release behind all years, and a trainer without a release, have the newest; files without years leave it to the preset.
  EXPECT_EQ(year("trainer: {name: llm-foundry, release: 0.22}\n"), 0);
  EXPECT_EQ(year("trainer: {name: huggingface, release: 5.24}\n"), 0);
  EXPECT_EQ(year("trainer: nanotron\n"), 0);
  EXPECT_EQ(year("trainer: {name: nanotron, release: 0.4}\n"), 2024);
  EXPECT_EQ(year("trainer: fms-fsdp\n"), 2024);
  // A dated preset that somebody named keeps its year; one that stands in has no date.
  EXPECT_EQ(year("framework: megatron\n"), 2022);
  EXPECT_EQ(year("framework: megatron-deepspeed\n"), 2022);
  EXPECT_EQ(year("framework: megatron-zb\n"), 2023);
  EXPECT_EQ(year("trainer: megatron\nframework: megatron\n"), 2022);
  EXPECT_EQ(year(""), 0);
  EXPECT_EQ(year("framework: {attention: unfused}\n"), 0);
}

TEST(Trainer, AReleaseBehindTheNewestIsNotKnown) {
  const auto unknown = [](const char* release) { return unknown_release(load_trainer("torchtitan", release)); };
  EXPECT_EQ(unknown("9.9"), "release 9.9 of torchtitan is not known here: what can run is taken from 0.3");
  EXPECT_EQ(unknown("0.3"), "");
  EXPECT_EQ(unknown("0.3.2"), "");  // a later one of the same release
  EXPECT_NE(unknown("0.30"), "");
  EXPECT_EQ(unknown(""), "");
}

TEST(Trainer, AScenarioTakesItsFramework) {
  const auto framework = [](const std::string& more) { return scenario_of(more).framework.title(); };
  EXPECT_EQ(framework("trainer: torchtitan\n"), "torchtitan");
  EXPECT_EQ(framework("trainer: {name: nemo, release: 1.23}\n"), "nemo");
  EXPECT_EQ(framework("trainer: megatron\nframework: {attention: unfused}\n"), "megatron-core (attention: unfused)");
  EXPECT_EQ(framework("trainer: megatron\nframework: megatron\n"), "megatron");
  EXPECT_EQ(framework("trainer: megatron\nframework: {name: stp, dropout: true}\n"), "stp (dropout: true)");
  EXPECT_EQ(scenario_of("", {"trainer=megatron", "trainer.release=0.9"}).trainer->full_title(), "Megatron-LM 0.9");
  // --for MEGATRON does not ask for another release than the scenario's, but another trainer has others.
  const std::string old = "trainer: {name: megatron-core, release: 0.9}\n";
  EXPECT_EQ(scenario_of(old, {"trainer=megatron"}).trainer->full_title(), "Megatron-LM 0.9");
  EXPECT_EQ(scenario_of(old, {"trainer=torchtitan"}).trainer->full_title(), "torchtitan");
  EXPECT_EQ(scenario_of("").trainer, nullptr);
}

std::vector<std::string> keys_of(const std::string& trainer, const Degrees& degrees, std::string_view schedule,
                                 Recompute recompute = Recompute::None) {
  std::vector<std::string> keys;
  for (const TrainerObstacle& obstacle : obstacles(load_trainer(trainer), {degrees, schedule, recompute}))
    keys.push_back(obstacle.key);
  return keys;
}

TEST(Trainer, WhatCannotRun) {
  EXPECT_THAT(keys_of("megatron", {.pipeline = 2}, "1f1b"), IsEmpty());
  EXPECT_THAT(keys_of("megatron", {.pipeline = 2}, "zb-auto"), ElementsAre("schedule"));
  EXPECT_THAT(keys_of("megatron", {.pipeline = 1}, "zb-auto"), IsEmpty());  // one stage has any order
  EXPECT_THAT(keys_of("megatron", {.pipeline = 2}, ""), ElementsAre("schedule"));
  EXPECT_THAT(keys_of("torchtitan", {.pipeline = 2}, ""), IsEmpty());
  EXPECT_THAT(keys_of("accelerate", {.pipeline = 2}, "1f1b"), ElementsAre("parallel.pipeline"));
  EXPECT_THAT(keys_of("deepspeed", {.data = 4, .zero = 3}, "1f1b"), IsEmpty());
  EXPECT_THAT(keys_of("deepspeed", {.pipeline = 2, .data = 4, .zero = 3}, "1f1b"), ElementsAre("parallel.zero"));
  EXPECT_THAT(keys_of("deepspeed", {.tensor = 2, .context = 2, .expert = 2}, "1f1b", Recompute::Selective),
              ElementsAre("parallel.tensor", "parallel.context", "parallel.expert", "recompute"));
  EXPECT_THAT(keys_of("panpipe", {.tensor = 2, .pipeline = 4, .zero = 3}, "stp", Recompute::Selective), IsEmpty());
}

std::vector<std::string> keys_of_offload(const std::string& trainer, const HostedState& hosted, int zero) {
  const Degrees degrees = {.data = 4, .zero = zero};
  std::vector<std::string> keys;
  for (const TrainerObstacle& obstacle :
       obstacles(load_trainer(trainer), {degrees, "1f1b", Recompute::None, Precision::Fp32, false, hosted}))
    keys.push_back(obstacle.key);
  return keys;
}

// DeepSpeed moves the optimizer under ZeRO 1 to 3, and parameters under 3; FSDP all or nothing; Megatron-LM the optimizer from
// 0.11 on; nanotron and our executor nothing.
TEST(Trainer, WhatTheHostCanHold) {
  const HostedState optimizer = {true, false}, all = {true, true};
  EXPECT_THAT(keys_of_offload("deepspeed", optimizer, 1), IsEmpty());
  EXPECT_THAT(keys_of_offload("deepspeed", optimizer, 0), ElementsAre("offload.optimizer"));
  EXPECT_THAT(keys_of_offload("deepspeed", all, 3), IsEmpty());
  EXPECT_THAT(keys_of_offload("torchtitan", optimizer, 3), ElementsAre("offload.optimizer"));
  EXPECT_THAT(keys_of_offload("torchtitan", all, 3), IsEmpty());
  EXPECT_THAT(keys_of_offload("megatron", optimizer, 1), IsEmpty());
  EXPECT_THAT(keys_of_offload("megatron", all, 3), ElementsAre("offload.optimizer"));
  EXPECT_THAT(load_trainer("megatron", "0.10").offloads, IsEmpty());
  EXPECT_THAT(keys_of_offload("nanotron", optimizer, 1), ElementsAre("offload.optimizer"));
  EXPECT_THAT(keys_of_offload("panpipe", optimizer, 1), ElementsAre("offload.optimizer"));
}

TEST(Trainer, NumbersOfBlocksByStage) {
  const Degrees degrees = {.pipeline = 2};
  const auto found = [&](const char* trainer) {
    return obstacles(load_trainer(trainer), {degrees, "1f1b", Recompute::Full, Precision::Fp32, true}).size();
  };
  EXPECT_EQ(found("panpipe"), 0U);
  EXPECT_EQ(found("megatron"), 1U);
}

// Before 0.3 torchtitan's FSDP, over several ranks, was what mixed precisions next to other parallelism.
TEST(Trainer, PrecisionMayNeedDataRanks) {
  const Trainer torchtitan = load_trainer("torchtitan", "0.2.2");
  const auto mixes = [&](const Degrees& degrees) { return runs_in_precision(torchtitan, degrees, Precision::Bf16); };
  EXPECT_FALSE(mixes({.tensor = 2, .pipeline = 4, .data = 1}));
  EXPECT_FALSE(mixes({.pipeline = 2}));
  EXPECT_TRUE(mixes({.pipeline = 2, .data = 2, .zero = 2}));
  EXPECT_TRUE(mixes({.tensor = 2, .context = 2}));
  EXPECT_TRUE(mixes({.data = 1}));  // one device
  EXPECT_TRUE(runs_in_precision(torchtitan, {.pipeline = 2}, Precision::Fp32));
  EXPECT_TRUE(runs_in_precision(load_trainer("torchtitan", "0.3"), {.pipeline = 2}, Precision::Bf16));
  EXPECT_TRUE(runs_in_precision(load_trainer("torchtitan"), {.pipeline = 2}, Precision::Bf16));
  EXPECT_TRUE(runs_in_precision(load_trainer("megatron"), {.pipeline = 2}, Precision::Bf16));
  const Degrees alone = {.pipeline = 2};
  EXPECT_THAT(obstacles(torchtitan, {alone, "1f1b", Recompute::None, Precision::Bf16}), SizeIs(1));
}

// FSDP needs streams of its own; together with a pipeline it is a pull request.
TEST(Trainer, WhatIsToBeKnown) {
  const Trainer megatron = load_trainer("megatron");
  EXPECT_THAT(cautions(megatron, {.pipeline = 8, .data = 2, .zero = 1}), IsEmpty());
  EXPECT_THAT(cautions(megatron, {.data = 2, .zero = 2}), ElementsAre(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
  EXPECT_THAT(cautions(megatron, {.pipeline = 2, .data = 2, .zero = 2}),
              ElementsAre(HasSubstr("pull requests 2302 and 6486"), HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
}

}  // namespace
}  // namespace panpipe
