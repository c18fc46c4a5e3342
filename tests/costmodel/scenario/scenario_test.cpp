#include "costmodel/scenario/scenario.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "base/input/reader.hpp"
#include "costmodel/scenario/default_framework.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "tests/costmodel/scenario/small_scenario.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

// The scenario's share goes before the cluster's, and that before the device's.
TEST(Scenario, WhatAPlanMayFillOfADevice) {
  const auto limit_of = [](const std::string& cluster, const std::string& more = "", const std::string& set = "seed=1") {
    const Scenario s = parse_scenario(
        "panpipe: 1\ncluster: " + cluster + "\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n" + more,
        "small.yaml", "", {set});
    return memory_limit(s, s.cluster.types.front()) / gib(1);
  };
  const std::string cards = "{file: clusters/rtx3090x8.yaml",
                    in_place = "{devices: 8, memory: 24 GiB, link: {latency: 0 s, bandwidth: 1 GB/s}";
  EXPECT_NEAR(limit_of(cards + "}"), 24 * 0.987, 1e-6);
  EXPECT_NEAR(limit_of(cards + "}", "", "cluster.device.usable=90 %"), 24 * 0.9, 1e-6);
  EXPECT_NEAR(limit_of(cards + "}", "", "cluster.device.memory=48 GiB"), 48 * 0.987, 1e-6);
  EXPECT_NEAR(limit_of(cards + ", usable: 80 %}"), 24 * 0.8, 1e-6);
  EXPECT_NEAR(limit_of(cards + ", usable: 80 %}", "usable: 100 %\n"), 24, 1e-6);
  EXPECT_NEAR(limit_of(in_place + "}"), 24, 1e-6);
  EXPECT_NEAR(limit_of(in_place + ", usable: 85 %}"), 24 * 0.85, 1e-6);
}

TEST(Scenario, Defaults) {
  const Scenario s = parse();
  EXPECT_EQ(s.file, "folder/small.yaml");
  EXPECT_EQ(s.name, "small");
  EXPECT_EQ(s.cluster.size(), 8);
  EXPECT_TRUE(s.cluster.given);
  EXPECT_EQ(s.workload.model, "gpt2");
  EXPECT_EQ(s.degrees.micro, 2);
  EXPECT_EQ(s.degrees.microbatches, 8);
  EXPECT_EQ(s.precision, Precision::Fp32);
  EXPECT_EQ(s.degrees.pipeline, 8);  // devices / (tensor x data)
  EXPECT_EQ(s.degrees.tensor, 1);
  EXPECT_EQ(s.degrees.data, 1);
  EXPECT_EQ(s.degrees.virtual_stages, 1);
  EXPECT_EQ(s.degrees.zero, 0);
  EXPECT_FALSE(s.degrees.sequence_parallel);
  EXPECT_EQ(s.schedule.name, "1f1b");
  EXPECT_TRUE(s.schedule.options.empty());
  EXPECT_TRUE(s.partition.empty());
  EXPECT_FALSE(s.placement.has_value());
  EXPECT_EQ(s.recompute, Recompute::None);
  EXPECT_EQ(s.optimizer.name, "adam");
  EXPECT_EQ(s.memory_model, MemoryModelKind::Full);
  EXPECT_EQ(s.tied_embedding, TiedEmbedding::Copy);
  EXPECT_FALSE(s.overlap_gradients);
  EXPECT_EQ(s.seed, 0);
  EXPECT_DOUBLE_EQ(s.usable.value(), 0.85);  // the cluster in place states it
  EXPECT_EQ(s.data.kind, DataRequest::Kind::Synthetic);
}

TEST(Scenario, EveryKey) {
  const Scenario s = parse(
      "precision: bf16-pure\n"
      "parallel: {tensor: 2, data: 2, zero: 1, sequence_parallel: true}\n"
      "schedule: {name: pfeife, stages_per_rank: 3, loop_batch: 4, prefetch: 2}\n"
      "partition: [3, block.5]\n"
      "placement: [0, 2, 4, 6, 1, 3, 5, 7]\n"
      "recompute: selective\n"
      "optimizer: {name: sgd}\n"
      "memory_model: pfeife\n"
      "tied_embedding: one-rank\n"
      "overlap_gradients: true\n"
      "framework: eager\n"
      "usable: 90 %\n"
      "seed: 7\n"
      "data: {synthetic: true}\n"
      "description: everything at once\n");
  EXPECT_EQ(s.precision, Precision::Bf16Pure);
  EXPECT_EQ(s.degrees.pipeline, 2);  // 8 / (2 x 2)
  EXPECT_EQ(s.degrees.zero, 1);
  EXPECT_TRUE(s.degrees.sequence_parallel);
  EXPECT_EQ(s.degrees.virtual_stages, 3);
  EXPECT_EQ(s.schedule.name, "pfeife");
  EXPECT_EQ(s.schedule.options, (ScheduleOptions{{"stages_per_rank", "3"}, {"loop_batch", "4"}, {"prefetch", "2"}}));
  EXPECT_EQ(s.partition, (std::vector<std::string>{"3", "block.5"}));
  EXPECT_EQ(s.placement, (std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(s.recompute, Recompute::Selective);
  EXPECT_EQ(s.optimizer.name, "sgd");
  EXPECT_EQ(s.memory_model, MemoryModelKind::Pfeife);
  EXPECT_EQ(s.tied_embedding, TiedEmbedding::OneRank);
  EXPECT_TRUE(s.overlap_gradients);
  EXPECT_EQ(s.framework.name, "eager");
  EXPECT_DOUBLE_EQ(s.usable.value(), 0.9);
  EXPECT_EQ(s.seed, 7);
}

// The options that the file gives are its family's: another one, named by an override, keeps those that it has too.
TEST(Scenario, AnotherScheduleLeavesTheFilesOptions) {
  const std::string text = "schedule: {name: pfeife, loop_batch: 4, prefetch: 2, stages_per_rank: 2}\n";
  EXPECT_EQ(parse(text, {"schedule.name=1f1b"}).schedule.options, ScheduleOptions{});
  EXPECT_EQ(parse(text, {"schedule.name=interleaved-1f1b"}).schedule.options, (ScheduleOptions{{"stages_per_rank", "2"}}));
  EXPECT_EQ(parse(text, {"schedule.name=pfeife"}).schedule.options.size(), 3u);
  EXPECT_EQ(parse(text, {"schedule.prefetch=1"}).schedule.options.at("prefetch"), "1");
  for (const auto& overrides : {std::vector<std::string>{"schedule.prefetch=1", "schedule.name=1f1b"},
                                std::vector<std::string>{"schedule.name=1f1b", "schedule.prefetch=1"}}) {
    EXPECT_EQ(test::diagnostic_of([&] { parse(text, overrides); }).message, "the schedule 1f1b has no option 'prefetch'");
  }
}

// `auto` is the default for every verb but plan, which may choose what is open: absent or auto.
TEST(Scenario, AutoIsTheDefaultAndIsOpen) {
  const Scenario written = parse(
      "parallel: {pipeline: auto, tensor: auto, data: auto, virtual_stages: auto, zero: auto, sequence_parallel: auto}\n"
      "schedule: auto\nrecompute: auto\npartition: auto\nplacement: auto\n");
  const Scenario absent = parse("");
  EXPECT_EQ(written.degrees.pipeline, absent.degrees.pipeline);
  EXPECT_EQ(written.degrees.tensor, 1);
  EXPECT_EQ(written.schedule.name, "1f1b");
  EXPECT_EQ(written.recompute, Recompute::None);
  EXPECT_FALSE(written.placement.has_value());
  for (const char* key : {"parallel.pipeline", "parallel.zero", "schedule", "schedule.prefetch", "recompute", "partition"}) {
    EXPECT_TRUE(is_open(written, key)) << key;
    EXPECT_TRUE(is_open(absent, key)) << key;
  }
  const Scenario stated =
      parse("parallel: {tensor: 2}\nschedule: {name: pfeife, loop_batch: auto, prefetch: 1}\nrecompute: none\n");
  for (const char* key : {"parallel.tensor", "schedule", "schedule.prefetch", "recompute"})
    EXPECT_FALSE(is_open(stated, key)) << key;
  for (const char* key : {"parallel.data", "schedule.loop_batch", "schedule.stages_per_rank"})
    EXPECT_TRUE(is_open(stated, key)) << key;
  EXPECT_EQ(stated.schedule.options.count("loop_batch"), 0u);
}

const std::string kOnEight =
    "panpipe: 1\n"
    "cluster: {devices: 8, memory: 24 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}\n"
    "workload: {model: gpt2}\n";

TEST(Scenario, RecomputeNamesBlocksAndOperators) {
  const auto read = [](const std::string& value) {
    return parse_scenario(kOnEight + "batch: {micro: 1, microbatches: 8}\nrecompute: " + value + "\n", "a.yaml", "");
  };
  EXPECT_EQ(read("{every: 2}").recompute, Recompute::Full);
  EXPECT_EQ(read("{every: 2}").recompute_scope.every, 2);
  EXPECT_TRUE(read("{every: 1}").recompute_scope.plain());
  const Scenario both = read("{every: 3, operators: [norms, second-products]}");
  EXPECT_EQ(both.recompute, Recompute::Selective);
  EXPECT_EQ(both.recompute_scope.operators, (std::vector{RecomputedKind::Norms, RecomputedKind::SecondProducts}));
  EXPECT_EQ(recompute_words(both.recompute, both.recompute_scope), "selective (norms, second-products), one block in 3");
  EXPECT_EQ(recompute_words(Recompute::Full, read("{every: 2}").recompute_scope), "full, one block in 2");
  EXPECT_EQ(recompute_words(Recompute::Selective, read("selective").recompute_scope), "selective");
  EXPECT_EQ(read("{first: 2}").recompute, Recompute::Full);
  EXPECT_EQ(read("{first: 2, operators: [norms]}").recompute, Recompute::Selective);
  EXPECT_FALSE(read("{first: 2}").recompute_scope.plain());
  EXPECT_FALSE(read("{chunk: 2}").recompute_scope.plain());
  EXPECT_EQ(recompute_words(Recompute::Full, read("{first: 1}").recompute_scope), "full, the first block of each stage");
  EXPECT_EQ(recompute_words(Recompute::Full, read("{first: 4}").recompute_scope), "full, the first 4 blocks of each stage");
  EXPECT_EQ(recompute_words(Recompute::Full, read("{chunk: 2}").recompute_scope), "full, 2 blocks together");
  EXPECT_EQ(parse_scenario(resolved_text(read("{first: 4}")), "b.yaml", "").recompute_scope.first, 4);
  EXPECT_EQ(parse_scenario(resolved_text(read("{chunk: 2}")), "b.yaml", "").recompute_scope.chunk, 2);
  const Scenario by_stage = read("{first: [4, 2, 0]}");
  EXPECT_EQ(by_stage.recompute, Recompute::Full);
  EXPECT_EQ(by_stage.recompute_scope.firsts, (std::vector{4, 2, 0}));
  EXPECT_EQ(by_stage.recompute_scope.first, 0);
  EXPECT_EQ(recompute_words(Recompute::Full, by_stage.recompute_scope), "full, the first 4, 2, 0 blocks of the stages");
  EXPECT_EQ(parse_scenario(resolved_text(by_stage), "b.yaml", "").recompute_scope.firsts, by_stage.recompute_scope.firsts);
  EXPECT_FALSE(is_open(both, "recompute"));
  const Scenario again = parse_scenario(resolved_text(both), "b.yaml", "");
  EXPECT_EQ(again.recompute_scope.operators, both.recompute_scope.operators);
  EXPECT_EQ(again.recompute_scope.every, 3);
}

TEST(Scenario, RecomputeNamesModules) {
  const auto read = [](const std::string& value) {
    return parse_scenario(kOnEight + "batch: {micro: 1, microbatches: 8}\nrecompute: " + value + "\n", "a.yaml", "");
  };
  const Scenario listed = read("{modules: [core_attn, layernorm, mlp], first: 2}");
  EXPECT_EQ(listed.recompute, Recompute::Selective);
  EXPECT_EQ(listed.recompute_scope.operators, std::vector{RecomputedKind::Attention});
  EXPECT_EQ(listed.recompute_scope.modules, (std::vector{RecomputedModule::LayerNorm, RecomputedModule::Mlp}));
  EXPECT_EQ(recompute_words(listed.recompute, listed.recompute_scope),
            "selective (attention, layernorm, mlp), the first 2 blocks of each stage");
  EXPECT_TRUE(read("{modules: [core_attn]}").recompute_scope.plain()) << "selective by another name";
  EXPECT_TRUE(read("{modules: [mlp]}").recompute_scope.operators.empty());
  const Scenario again = parse_scenario(resolved_text(listed), "b.yaml", "");
  EXPECT_EQ(again.recompute_scope.modules, listed.recompute_scope.modules);
  EXPECT_EQ(again.recompute_scope.operators, listed.recompute_scope.operators);
}

// Formats, hosts and training come back from the text of a resolved scenario.
TEST(Scenario, StateComesBackFromItsText) {
  const Scenario scenario = parse_scenario(
      "panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {model: gpt2, lora: {rank: 8, targets: [c_attn]}, frozen: "
      "[\"*wpe*\"]}\n"
      "batch: {micro: 1, microbatches: 8}\nprecision: fp8\nparallel: {data: 8, zero: 3}\n"
      "optimizer: {name: adamw, states: 8bit, master: none}\noffload: {optimizer: stream, streamed_states: [second_moment], "
      "parameters: cpu, gradients: cpu, blocks: 4, block_inputs: cpu}\n"
      "framework: {name: megatron-core, fp8_scaling: current, fp8_parameters: true}\n",
      "a.yaml", "");
  for (const Scenario& s : {scenario, parse_scenario(resolved_text(scenario), "b.yaml", "")}) {
    EXPECT_EQ(s.precision, Precision::Fp8);
    EXPECT_EQ(s.workload.tuning.rank, 8);
    EXPECT_EQ(s.workload.tuning.alpha, 8);
    EXPECT_EQ(s.workload.tuning.targets, std::vector<std::string>{"c_attn"});
    EXPECT_EQ(s.workload.tuning.frozen, std::vector<std::string>{"*wpe*"});
    EXPECT_EQ(s.optimizer.states, StateFormat::Int8);
    EXPECT_EQ(s.optimizer.master, MasterFormat::None);
    EXPECT_TRUE(s.offload.optimizer && s.offload.streams && s.offload.parameters && s.offload.gradients);
    EXPECT_TRUE(!s.offload.first_moment && s.offload.second_moment && !s.offload.master);
    EXPECT_TRUE(s.offload.blocks == 4 && s.offload.block_inputs);
    EXPECT_EQ(s.framework.fp8_scaling, Fp8Scaling::Current);
    EXPECT_TRUE(s.framework.fp8_parameters);
  }
}

// Verbs that do not search take what is open for none, whatever ZeRO is.
TEST(Scenario, OpenOffloadCountsAsNone) {
  const auto with = [](const std::vector<std::string>& overrides) {
    return parse_scenario(
        "panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 8}\n"
        "offload: {optimizer: auto, parameters: auto}\n",
        "a.yaml", "", overrides);
  };
  const Scenario open = with({});
  EXPECT_FALSE(open.offload.optimizer || open.offload.parameters);
  EXPECT_TRUE(is_open(open, "offload.optimizer") && is_open(open, "offload.parameters"));
  const Scenario stated = with({"offload.optimizer=cpu"});
  EXPECT_TRUE(stated.offload.optimizer);
  EXPECT_FALSE(is_open(stated, "offload.optimizer"));
}

TEST(Scenario, AGlobalBatchGivesTheMicrobatches) {
  const std::string text = kOnEight + "batch: {micro: 2, global: 48}\n";
  const auto read = [&](const std::vector<std::string>& overrides) { return parse_scenario(text, "a.yaml", "", overrides); };
  EXPECT_EQ(read({}).degrees.microbatches, 24);
  for (const int data : {2, 4, 8}) EXPECT_EQ(read({"parallel.data=" + std::to_string(data)}).degrees.microbatches, 24 / data);
  EXPECT_EQ(read({"batch.micro=6", "parallel.data=4"}).degrees.microbatches, 2);
  EXPECT_EQ(read({"batch.micro=auto", "parallel.data=4"}).degrees.microbatches, 12);
  EXPECT_EQ(origin_of(read({"parallel.data=4"}), "batch.microbatches"), "derived: global 48 / (micro 2 x data 4)");
}

TEST(Scenario, AnOverrideCountsTheBatchAnew) {
  const std::string by_global = kOnEight + "batch: {micro: 2, global: 48}\n",
                    by_count = kOnEight + "batch: {micro: 2, microbatches: 5}\n";
  const auto count = [](const std::string& text, const std::vector<std::string>& overrides) {
    return parse_scenario(text, "a.yaml", "", overrides).degrees.microbatches;
  };
  EXPECT_EQ(count(by_count, {"batch.global=48"}), 24);
  EXPECT_EQ(count(by_count, {"batch.global=48", "parallel.data=2"}), 12);
  EXPECT_EQ(count(by_global, {"batch.microbatches=7", "parallel.data=2"}), 7);
  EXPECT_EQ(count(by_global, {"batch={micro: 1, microbatches: 3}"}), 3);
}

// The default follows the model's kind, and is reported; a written one is taken for any model.
TEST(Scenario, TheDefaultFrameworkIsOfTheModelsKind) {
  const auto read = [](const std::string& workload, const std::string& more = "") {
    return parse_scenario("panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: " + workload +
                              "\nbatch: {micro: 1, microbatches: 8}\n" + more,
                          "a.yaml", "");
  };
  for (const auto& [workload, preset, kind] :
       {std::tuple("{model: llama2-7b}", "flash-attn", "llama"),
        {"{model: mllm-14.9b}", "flash-attn", "mllm"},
        {"{model: gpt2}", "megatron", "gpt"},
        {"{model: bert-large}", "megatron", "bert"},
        {"{model: llama, layers: 2, hidden: 64, heads: 4, ffn: 96}", "flash-attn", "llama"}}) {
    const Scenario scenario = read(workload);
    EXPECT_EQ(scenario.framework.name, preset) << workload;
    EXPECT_EQ(is_fused(scenario.framework.attention), std::string(preset) == "flash-attn") << workload;
    EXPECT_EQ(origin_of(scenario, "framework"), std::string("default for ") + kind);
    EXPECT_THAT(resolved_text(scenario), HasSubstr(std::string("# default for ") + kind + "\n"));
  }
  EXPECT_EQ(read("{model: llama2-7b}", "framework: megatron\n").framework.name, "megatron");
  EXPECT_EQ(read("{layers: ../tests/input_errors/good/layers.yaml}").framework.name, "megatron");
  WorkloadRequest exported;
  exported.pt2_file = "x.pt2";
  EXPECT_EQ(default_framework(exported).name, "eager-sdpa");
}

TEST(Scenario, StagesOfARankHaveTwoNames) {
  EXPECT_EQ(parse("parallel: {virtual_stages: 3}\nschedule: interleaved-1f1b\n").schedule.options.at("stages_per_rank"), "3");
  EXPECT_EQ(parse("schedule: {name: interleaved-1f1b, stages_per_rank: 3}\n").degrees.virtual_stages, 3);
  EXPECT_EQ(parse("schedule: interleaved-1f1b\n").degrees.virtual_stages, 2);  // the family's default
  EXPECT_EQ(parse("parallel: {virtual_stages: 1}\nschedule: gpipe\n").degrees.virtual_stages, 1);
}

TEST(Scenario, MeasuredLayersHaveNoOptimizerUnlessStated) {
  const std::string text =
      "panpipe: 1\ncluster: {devices: 4, memory: 24 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}\n"
      "workload: {layers: good/layers.yaml}\nbatch: {micro: 1, microbatches: 4}\n";
  EXPECT_EQ(parse_scenario(text, "x.yaml", "input_errors").optimizer.name, "none");
  EXPECT_EQ(parse_scenario(text + "optimizer: adam\n", "x.yaml", "input_errors").optimizer.name, "adam");
  EXPECT_EQ(parse_scenario(text, "x.yaml", "input_errors").workload.layers_file, "input_errors/good/layers.yaml");
}

TEST(Scenario, TrainingIsReadAndPrinted) {
  const std::string text =
      "optimizer: {name: adamw, learning_rate: 3e-4, betas: [0.8, 0.95], epsilon: 1e-6, weight_decay: 0.1}\n"
      "training: {warmup_steps: 5, decay: cosine, decay_steps: 50, minimum_learning_rate: 1e-5, clip_gradients: 1,\n"
      "           loss_scale: {initial: 1024, growth_interval: 7}, keep_checkpoints: 3}\n";
  for (const Scenario& s : {parse(text), parse_scenario(resolved_text(parse(text)), "again.yaml", "/nowhere")}) {
    EXPECT_EQ(s.optimizer.name, "adamw");
    EXPECT_EQ(s.optimizer.learning_rate, 3e-4);
    EXPECT_EQ(s.optimizer.beta1, 0.8);
    EXPECT_EQ(s.optimizer.beta2, 0.95);
    EXPECT_EQ(s.optimizer.epsilon, 1e-6);
    EXPECT_EQ(s.optimizer.weight_decay, 0.1);
    EXPECT_EQ(s.training.warmup_steps, 5);
    EXPECT_EQ(s.training.decay, TrainingRequest::Decay::Cosine);
    EXPECT_EQ(s.training.decay_steps, 50);
    EXPECT_EQ(s.training.minimum_learning_rate, 1e-5);
    EXPECT_EQ(s.training.clip_gradients, 1);
    EXPECT_EQ(s.training.loss_scale, TrainingRequest::LossScale::Dynamic);
    EXPECT_EQ(s.training.initial_scale, 1024);
    EXPECT_EQ(s.training.growth_interval, 7);
    EXPECT_EQ(s.training.keep_checkpoints, 3);
  }
  EXPECT_EQ(parse("optimizer: {name: adamw}\n").optimizer.weight_decay, 0.01);
  EXPECT_EQ(parse("optimizer: momentum\n").optimizer.momentum, 0.9);
  EXPECT_EQ(parse("optimizer: adam\n", {"optimizer.learning_rate=0.5"}).optimizer.learning_rate, 0.5);
  EXPECT_EQ(parse("training: {loss_scale: 128}\n").training.loss_scale, TrainingRequest::LossScale::Fixed);
}

TEST(Scenario, OverridesReachIntoNamesAndFiles) {
  EXPECT_EQ(parse("", {"batch.micro=4", "batch.microbatches=16"}).degrees.microbatches, 16);
  const Scenario s = parse("schedule: pfeife\n", {"schedule.loop_batch=4", "parallel.data=2"});
  EXPECT_EQ(s.schedule.options.at("loop_batch"), "4");
  EXPECT_EQ(s.degrees.pipeline, 4);
  EXPECT_EQ(origin_of(s, "schedule.loop_batch"), "--set");
  EXPECT_EQ(origin_of(s, "batch.micro"), "folder/small.yaml:4");
  const Scenario file = parse_scenario(
      "panpipe: 1\ncluster: clusters/dgx-a100-80g.yaml\nworkload: {model: gpt3-175b}\nbatch: {micro: 1, microbatches: 8}\n",
      "a.yaml", "", {"cluster.nodes=4", "workload.sequence=1024"});
  EXPECT_EQ(file.cluster.nodes, 4);
  EXPECT_EQ(file.cluster.size(), 32);
  EXPECT_EQ(file.workload.sequence, 1024);
}

TEST(Scenario, LaterFaultsFindTheirPlace) {
  const Scenario s = parse("schedule: {name: pfeife, loop_batch: 4}\n");
  EXPECT_STREQ(fault_at(s, "schedule.loop_batch", "too many").what(),
               "folder/small.yaml:5:38: error: too many\n"
               "  at schedule.loop_batch\n"
               "    5 | schedule: {name: pfeife, loop_batch: 4}\n"
               "      |                                      ^");
  // A missing value has the place of the map around it.
  EXPECT_EQ(fault_at(s, "schedule.prefetch", "x").diagnostics()[0].line, 5);
  EXPECT_EQ(fault_at(s, "partition", "x").diagnostics()[0].line, 1);
  EXPECT_EQ(origin_of(s, "precision"), "default");
}

TEST(Scenario, AScriptIsNamedAsOne) {
  const std::string text = "TP=2\ntorchrun pretrain_gpt.py --num-layers 2\n";
  const test::TemporaryFolder folder;
  for (const std::string& file : {folder.write("train.sh", text), folder.write("train", "#!/bin/bash\n" + text)})
    EXPECT_THAT(test::fault_of([&] { load_scenario(file); }),
                ::testing::AllOf(::testing::HasSubstr(file + ": this is a script, not a scenario"),
                                 ::testing::HasSubstr("panpipe plan " + file + " --for megatron")));
}

}  // namespace
}  // namespace panpipe
