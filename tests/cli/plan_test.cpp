// panpipe plan as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";

TEST(Plan, WhatItWritesIsWhatTheOtherVerbsPredict) {
  const std::string file = temporary_folder() + "/plan.yaml";
  const json answer = json::parse(answer_of("plan " + kGpt2 + " --method pfeife --json --candidates 2 -o " + file));
  EXPECT_EQ(answer["schema"], "panpipe-plan/1");
  EXPECT_EQ(answer["method"], "pfeife");
  EXPECT_EQ(answer["objective"], "step_time_s");
  EXPECT_EQ(answer["feasible"], true);
  EXPECT_EQ(answer["candidates"].size(), 2u);
  for (const char* key : {"stages", "schedule", "metrics", "simulated"}) EXPECT_TRUE(answer["best"].contains(key)) << key;
  for (const char* key : {"operators", "data", "tensor", "recompute", "devices"})
    EXPECT_TRUE(answer["best"]["stages"][0].contains(key)) << key;
  for (const char* key : {"evaluated", "pruned", "lower_bound", "proved_optimal"})
    EXPECT_TRUE(answer["search"].contains(key)) << key;
  EXPECT_LE(answer["search"]["lower_bound"], answer["best"]["metrics"]["step_time_s"]);
  // The scenario's own schedule is pfeife with loop_batch 8 and prefetch 2: these stay.
  EXPECT_EQ(answer["best"]["schedule"]["loop_batch"], 8);
  const std::string again = answer_of("estimate --json " + kGpt2 + " --plan " + file);
  EXPECT_EQ(json::parse(again)["metrics"]["step_time_s"], answer["best"]["metrics"]["step_time_s"]);
  EXPECT_EQ(json::parse(again)["metrics"]["peak_memory_bytes"], answer["best"]["metrics"]["peak_memory_bytes"]);
  const Outcome unplanned = panpipe("estimate --json " + kGpt2);
  EXPECT_LT(answer["best"]["metrics"]["step_time_s"], json::parse(unplanned.out)["metrics"]["step_time_s"]);
}

TEST(Plan, TwoRunsGiveTheSameBytes) {
  const std::string arguments = "plan " + kGpt2 + " --method pfeife --json";
  EXPECT_EQ(panpipe(arguments).out, panpipe(arguments + " --threads 1").out);
}

TEST(Plan, WhereNothingFitsTheExitCodeIsOneAndTheLimitIsNamed) {
  const Outcome run = panpipe("plan " + kGpt2 + " --method pfeife --json --set 'usable=15 %'");
  EXPECT_EQ(run.exit_code, 1);
  const json answer = json::parse(run.out);
  EXPECT_EQ(answer["feasible"], false);
  EXPECT_TRUE(answer["best"].is_null());
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("memory is in the way"));
}

// 35 % of a card are too little without recompute; with it, stage by stage, they are enough, and the plan file states which.
TEST(Plan, RecomputeIsSearchedWhereTheScenarioLeavesItOpen) {
  const std::string file = temporary_folder() + "/plan.yaml", limit = " --set 'usable=35 %'";
  EXPECT_EQ(panpipe("plan " + kGpt2 + " --method pfeife --json" + limit).exit_code, 1);  // the scenario states `recompute: none`
  const json best =
      json::parse(answer_of("plan " + kGpt2 + " --method pfeife --json --set recompute=auto -o " + file + limit))["best"];
  std::size_t recomputed = 0;
  for (const json& stage : best["stages"]) recomputed += stage["recompute"].size();
  EXPECT_GT(recomputed, 0u);
  EXPECT_THAT(best["summary"].get<std::string>(), HasSubstr("; recompute "));
  EXPECT_EQ(best["metrics"]["fits"], true);
  const json metrics =
      json::parse(answer_of("estimate --json " + kGpt2 + " --set recompute=auto --plan " + file + limit))["metrics"];
  for (const char* key : {"step_time_s", "peak_memory_bytes", "fits"}) EXPECT_EQ(metrics[key], best["metrics"][key]) << key;
}

// Thousands of devices are ranges in text, and numbers in the document.
TEST(Plan, TheTextStaysSmallHoweverManyDevicesThereAre) {
  const std::string arguments =
      "plan scenarios/examples/gpt3-175b-a100x64.yaml --set cluster.nodes=1000 --set 'parallel={tensor: 8, pipeline: 96}' --set "
      "schedule=1f1b "
      "--set 'batch={micro: 1, microbatches: 1000}' --set recompute=full";
  const Outcome text = panpipe(arguments), document = panpipe(arguments + " --json");
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_LT(text.out.size(), 20'000u);
  const json answer = json::parse(document.out);
  std::size_t used = 0;
  for (const json& stage : answer["best"]["stages"]) used += stage["devices"].size();
  EXPECT_GT(used, 5000u);
  EXPECT_EQ(answer["best"]["unused_devices"].size(), 8000 - used);
  EXPECT_THAT(text.out, HasSubstr(" of 8000 devices are not used: "));
}

TEST(Plan, ACutInsideAUnitIsRefusedWithTheReason) {
  for (const std::string verb : {"plan --method pfeife ", "estimate "}) {
    EXPECT_THAT(
        refusal_of(verb + kGpt2 + " --set 'partition=[transformer.h.3.attn.c_attn]'"),
        HasSubstr("error: partition: no cut may stand in front of 'transformer.h.3.attn.c_attn' (operator 61, aten::linear): it "
                  "lies inside unit 'h.3.attention' (operators 60 to 73), because module 'transformer.h.3.attn.c_attn' is part "
                  "of 'h.3.attention', the smallest unit that can be moved; cut in front of 'h.3.attention' or "
                  "'h.3.mlp'\n"));
  }
  const Outcome begins = panpipe("estimate " + kGpt2 + " --set 'partition=[transformer.h.3.ln_1]'");
  EXPECT_THAT(begins.err, HasSubstr("'transformer.h.3.ln_1' begins with unit 'h.3.attention': name that"));
  const json document = json::parse(answer_of("check --units --json " + kGpt2));
  EXPECT_EQ(document["schema"], "panpipe-units/1");
  ASSERT_EQ(document["units"].size(), 74u);
  EXPECT_EQ(document["units"][1]["name"], "h.0.attention");
  EXPECT_TRUE(document["units"][1]["operators"][0]["no_cut_before"].is_null());
  EXPECT_EQ(document["units"][1]["operators"][1]["no_cut_before"],
            "module 'transformer.h.0.attn.c_attn' is part of 'h.0.attention', the smallest unit that can be moved");
}

// On consumer cards contention decides. A search among the schedules of one trainer is part of the whole search, so it finds
// nothing faster but for what simulations of its few finalists leave: at most 2 %. The whole search once spent them on variants
// of one layout, and its answer took 30 % longer.
TEST(Plan, AllSchedulesAreNoSlowerThanSome) {
  const std::string file =
      write_file(temporary_folder() + "/cards.yaml",
                 "panpipe: 1\n"
                 "cluster: {file: clusters/rtx4090x8.yaml}\n"
                 "workload: {config: {model_type: llama, hidden_size: 2048, intermediate_size: 6144, num_hidden_layers: 8, "
                 "num_attention_heads: 16, num_key_value_heads: 16, vocab_size: 32000}, sequence: 4096}\n"
                 "batch: {micro: auto, microbatches: 16}\n"
                 "precision: bf16\n"
                 "parallel: {context: auto}\n"
                 "schedule: auto\n"
                 "recompute: auto\n"
                 "framework: megatron-core\n"
                 "usable: 50 %\n");
  const auto simulated = [&](const std::string& more) {
    return json::parse(answer_of("plan --json " + file + more))["best"]["simulated"]["step_time_s"].get<double>();
  };
  const double all = simulated("");
  for (const char* trainer : {"torch", "megatron", "deepspeed", "torchtitan"})
    EXPECT_LE(all, simulated(std::string(" --for ") + trainer) * 1.02) << trainer;
}

std::string answer_in_lines(const std::string& command, std::size_t most) {
  const std::string text = answer_of(command);
  EXPECT_LE(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), most) << text;
  return text;
}

// A whole plan is shown as it is predicted alone, whatever the search may choose.
TEST(PlanYours, IsWhatEstimateAndSimulateSayOfTheScenario) {
  const json estimated = json::parse(answer_of("estimate --json " + kGpt2))["metrics"];
  const json simulated = json::parse(answer_of("simulate --backend flow --json " + kGpt2))["metrics"];
  for (const char* more :
       {"", " --open", " --set schedule=auto --set 'parallel={}'", " --method pfeife --set schedule=[1f1b,zb-h1]"}) {
    const json answer = json::parse(answer_of("plan --json " + kGpt2 + more));
    const json& yours = answer["yours"];
    for (const char* key : {"step_time_s", "peak_memory_bytes", "fits"}) EXPECT_EQ(yours["metrics"][key], estimated[key]) << more;
    EXPECT_NEAR(yours["simulated"]["step_time_s"], simulated["step_time_s"], 1e-6) << more;
    EXPECT_EQ(yours["schedule"]["name"], "pfeife") << more;
    EXPECT_EQ(yours["stages"].size(), 8u) << more;
    const bool of_estimates = answer["method"] == "pfeife";
    const auto step = [&](const json& plan) { return plan[of_estimates ? "metrics" : "simulated"]["step_time_s"].get<double>(); };
    for (const json& one : answer["candidates"]) {
      EXPECT_NEAR(one["gain_over_yours"].get<double>(), 1 - step(one) / step(yours), 1e-12) << more;
      const double apart = std::max(step(one), step(yours)) / std::min(step(one), step(yours)) - 1;
      EXPECT_EQ(one["tie_with_yours"], apart <= answer["tie_within"].get<double>()) << more;
    }
  }
}

TEST(PlanYours, IsAbsentWhereTheScenarioStatesNone) {
  const auto has = [](const std::string& micro, const std::string& more) {
    const std::string file = write_file(temporary_folder() + "/open.yaml",
                                        "panpipe: 1\n"
                                        "cluster: clusters/rtx3090x8.yaml\n"
                                        "workload: {model: gpt2-large}\n"
                                        "batch: {micro: " +
                                            micro +
                                            ", global: 16}\n"
                                            "precision: fp16\n"
                                            "schedule: 1f1b\n"
                                            "recompute: none\n" +
                                            more);
    return json::parse(answer_of("plan --json " + file)).contains("yours");
  };
  EXPECT_FALSE(has("1", ""));  // divides no devices
  EXPECT_FALSE(has("auto", "parallel: {pipeline: 4}\n"));
  EXPECT_FALSE(has("1", "parallel: {pipeline: 4, zero: auto}\n"));
  EXPECT_TRUE(has("1", "parallel: {pipeline: 4}\n"));
}

// The samples of a step stay though the replicas change, and what --set states stays too.
TEST(PlanYours, OpenSearchesWhatTheFileStates) {
  const std::string stated = write_file(temporary_folder() + "/stated.yaml",
                                        "panpipe: 1\n"
                                        "cluster: clusters/rtx3090x8.yaml\n"
                                        "workload: {model: gpt2-large}\n"
                                        "batch: {micro: 1, microbatches: 8}\n"
                                        "precision: fp16\n"
                                        "parallel: {pipeline: 2, data: 4, zero: 0}\n"
                                        "schedule: {name: interleaved-1f1b, stages_per_rank: 2}\n"
                                        "partition: [20, 40, 60]\n"
                                        "recompute: full\n"
                                        "framework: eager\n");
  const auto samples = [](const json& plan) {
    return plan["settings"]["batch.micro"].get<int>() * plan["settings"]["batch.microbatches"].get<int>() *
           plan["settings"]["parallel.data"].get<int>();
  };
  const json open = json::parse(answer_of("plan --json " + stated + " --open"));
  EXPECT_EQ(samples(open["yours"]), 32);
  for (const json& one : open["candidates"]) EXPECT_EQ(samples(one), 32);
  EXPECT_GT(open["best"]["gain_over_yours"], 0.2);
  const json kept = json::parse(answer_of("plan --json " + stated));
  EXPECT_EQ(kept["best"]["schedule"]["name"], "interleaved-1f1b");
  EXPECT_EQ(kept["best"]["settings"]["recompute"], "full");
  const json narrowed =
      json::parse(answer_of("plan --json " + stated + " --open --set schedule=1f1b --set parallel.data=4 --set batch.micro=2"));
  for (const json& one : narrowed["candidates"]) {
    EXPECT_EQ(one["schedule"]["name"], "1f1b");
    EXPECT_EQ(one["settings"]["parallel.data"], 4);
    EXPECT_EQ(one["settings"]["batch.micro"], 2);
  }
  EXPECT_EQ(narrowed["yours"], open["yours"]);  // the file's, not what the search is narrowed to
  // Without --open the keys that are opened take the samples of a replica with them.
  const json fewer = json::parse(answer_of("plan --json " + stated + " --set 'parallel={}'"));
  EXPECT_FALSE(fewer.contains("yours"));
  EXPECT_EQ(fewer["without_yours"],
            "your plan trains 32 samples a step, the plans searched 8: state batch.global instead of batch.microbatches");
}

TEST(PlanYours, TheAnswerIsTenLines) {
  const std::string open = answer_in_lines("plan " + kGpt2 + " --open", 11);
  EXPECT_THAT(open, HasSubstr("\nplan 1 takes "));
  EXPECT_THAT(open, HasSubstr(" % less time than yours: step "));
  EXPECT_THAT(open, HasSubstr("; --verbose shows stages and search\n"));
  EXPECT_THAT(answer_in_lines("plan " + kGpt2 + " --open --set schedule=stp", 11),
              HasSubstr("\n  plan 1 runs only in: panpipe; --for TRAINER searches what a trainer can run\n"));
  const std::string kept = answer_in_lines("plan " + kGpt2, 11);
  EXPECT_THAT(kept, HasSubstr("\nyours is the only plan searched: step "));
  EXPECT_THAT(kept, HasSubstr("\n  kept as stated: parallel.pipeline, batch.micro, schedule, recompute; panpipe plan " + kGpt2 +
                              " --open searches them too\n"));
  EXPECT_THAT(answer_of("plan " + kGpt2 + " --open --verbose"),
              AllOf(HasSubstr("\n  in closed form: "), HasSubstr("  stage  units  from ... to"), HasSubstr("\n  yours ")));
}

// A stated plan that cannot run does not hide the others.
TEST(PlanYours, ThatCannotRunIsSaidSo) {
  const std::string file = write_file(temporary_folder() + "/large.yaml",
                                      "panpipe: 1\n"
                                      "cluster: clusters/rtx3090x8.yaml\n"
                                      "workload: {model: gpt2-large}\n"
                                      "batch: {micro: 1, global: 16}\n"
                                      "precision: fp16\n"
                                      "parallel: {pipeline: 8, data: 2}\n");
  const json answer = json::parse(answer_of("plan --json " + file + " --open"));
  EXPECT_THAT(answer["without_yours"].get<std::string>(), HasSubstr("your plan cannot run: "));
  EXPECT_EQ(answer["feasible"], true);
}

const std::string kJob =
    "torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
    "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
    "--micro-batch-size 1 --global-batch-size 16 --vocab-size 50304 --tokenizer-type NullTokenizer --bf16 "
    "--recompute-granularity full "
    "--recompute-method uniform --recompute-num-layers 1\n";

TEST(PlanJob, IsImportAndAnOpenPlanInOneCall) {
  const std::string folder = temporary_folder(), job = write_file(folder + "/train.sh", kJob);
  ASSERT_EQ(panpipe("import megatron " + job + " -o " + folder + "/imported.yaml").exit_code, 0);
  const Outcome run =
      panpipe("plan " + job + " --for megatron --json --scenario " + folder + "/kept.yaml -o " + folder + "/plan.yaml");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(read_file(folder + "/kept.yaml"), read_file(folder + "/imported.yaml"));
  EXPECT_EQ(run.out, answer_of("plan " + folder + "/imported.yaml --for megatron --open --json"));
  const json answer = json::parse(run.out);
  EXPECT_EQ(answer["yours"]["settings"]["parallel.tensor"], 2);
  EXPECT_EQ(answer["yours"]["settings"]["recompute"], "full");
  EXPECT_GT(answer["best"]["gain_over_yours"], 0.05);
  EXPECT_THAT(run.err, HasSubstr(" not understood; panpipe import megatron " + job + " shows them\n"));
  EXPECT_THAT(run.err, HasSubstr("panpipe: back into the job: panpipe export megatron " + folder + "/kept.yaml --plan " + folder +
                                 "/plan.yaml --base " + job + "\n"));
  EXPECT_EQ(panpipe("export megatron " + folder + "/kept.yaml --plan " + folder + "/plan.yaml").exit_code, 0);
}

// It has the key of a scenario's version, too.
TEST(PlanJob, IsACapturedOne) {
  const Outcome run = panpipe("plan tests/jobs/captured/megatron-core.json --for megatron --json");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("read from tests/jobs/captured/megatron-core.json"));
}

// A variable that the script leaves open is stated as for import.
TEST(PlanJob, TakesWhatItsScriptLeavesOpen) {
  std::string script = kJob;
  const std::string stated = "--tensor-model-parallel-size ";
  script.replace(script.find(stated) + stated.size(), 1, "$TP");
  const std::string job = write_file(temporary_folder() + "/train.sh", script);
  EXPECT_THAT(refusal_of("plan " + job + " --for megatron"), HasSubstr("state them: --define TP=..."));
  const json answer = json::parse(answer_of("plan " + job + " --for megatron --json --define TP=4"));
  EXPECT_EQ(answer["yours"]["settings"]["parallel.tensor"], 4);
  EXPECT_THAT(refusal_of("plan " + job + " --for megatron --define TP"), HasSubstr("--define: 'TP' is no NAME=VALUE"));
}

TEST(PlanJob, OfOneNumberOfGpus) {
  const std::string job = write_file(temporary_folder() + "/train.sh", kJob);
  EXPECT_THAT(
      refusal_of("plan " + job + " --for megatron --gpus 8,16"),
      HasSubstr("--gpus: error: of a job it is one number, the GPUs that the job has\n  help: to compare sizes, import the job "
                "first: panpipe import megatron\n"));
}

// A plan decides batch and degrees: a scenario with other values takes them from it, an override contradicts it.
TEST(PlanFile, BringsItsKeysAndRefusesOverridesOfThem) {
  const std::string folder = temporary_folder();
  ASSERT_EQ(panpipe("estimate " + kGpt2 + " --set batch.microbatches=6 --set batch.micro=1 -o " + folder + "/six").exit_code, 0);
  const std::string run = answer_of("estimate --json " + kGpt2 + " --plan " + folder + "/six/plan.yaml");
  EXPECT_EQ(json::parse(run)["metrics"], json::parse(read_file(folder + "/six/result.json"))["metrics"]);
  const std::string refused = refusal_of("estimate " + kGpt2 + " --plan " + folder + "/six/plan.yaml --set batch.micro=2");
  EXPECT_THAT(refused, HasSubstr("plan.yaml:3:"));
  EXPECT_THAT(refused, HasSubstr("the plan has micro 1, but the scenario has 2 (--set)"));
  EXPECT_THAT(refused, HasSubstr("the plan decides batch.micro: do not set it, or plan again"));
}

// It also decides the schedule, the recompute, the cuts and the placement, which stand in it alone: an override may repeat them.
TEST(PlanFile, RefusesOverridesOfWhatStandsInItAlone) {
  const std::string folder = temporary_folder();
  ASSERT_EQ(panpipe("estimate " + kGpt2 + " --set schedule=zb-h1 --set recompute=none -o " + folder + "/plan").exit_code, 0);
  const std::string call = "estimate " + kGpt2 + " --plan " + folder + "/plan/plan.yaml --set ";
  for (const auto& [setting, key] :
       {std::pair("schedule=1f1b", "schedule"), std::pair("schedule.name=zb-h2", "schedule.name"),
        std::pair("recompute=full", "recompute"), std::pair("partition=[1,2,3,4,5,6,7]", "partition"),
        std::pair("placement=[7,6,5,4,3,2,1,0]", "placement")}) {
    EXPECT_THAT(refusal_of(call + "'" + setting + "'"),
                HasSubstr(std::string("the plan decides ") + key + ": do not set it, or plan again"))
        << setting;
  }
  for (const char* setting :
       {"schedule=zb-h1", "schedule=auto", "recompute=none", "recompute=auto", "placement=[0,1,2,3,4,5,6,7]"})
    EXPECT_EQ(panpipe(call + "'" + setting + "'").exit_code, 0) << setting;
}

// 12 % of a card hold this model's states on no eight of them; --open takes the host's memory then, and the plan file states it.
TEST(PlanFile, HoldsTheOffloadThatTheSearchChose) {
  const std::string file = temporary_folder() + "/plan.yaml", usable = " --set 'usable=12 %'";
  const std::string call = "plan " + kGpt2 + usable + " --set schedule=1f1b --set parallel.tensor=1 --set parallel.pipeline=1";
  const json answer = json::parse(answer_of(call + " --open --json -o " + file));
  EXPECT_EQ(answer["best"]["settings"]["offload.optimizer"], "cpu");
  EXPECT_EQ(answer["best"]["settings"]["offload.parameters"], "cpu");
  EXPECT_THAT(answer["notes"].dump(), HasSubstr("nothing fits without offload: memory is in the way"));
  const std::string estimate = "estimate --json " + kGpt2 + usable + " --plan " + file;
  const json again = json::parse(answer_of(estimate))["metrics"];
  EXPECT_EQ(again["step_time_s"], answer["best"]["metrics"]["step_time_s"]);
  EXPECT_EQ(again["peak_memory_bytes"], answer["best"]["metrics"]["peak_memory_bytes"]);
  EXPECT_EQ(json::parse(answer_of(estimate + " --set offload.optimizer=auto"))["metrics"], again);
  EXPECT_THAT(refusal_of(estimate + " --set offload.optimizer=none"), HasSubstr("the plan decides offload.optimizer"));
  EXPECT_EQ(panpipe(call + " --open --set offload.optimizer=none --json").exit_code, 1);  // narrows the search
}

// Four sequences whose attention keeps no scores take 92 % of a card, and 85 % may be used: the plan recomputes operators.
TEST(PlanFile, HoldsTheOperatorsThatRecompute) {
  const std::string file = temporary_folder() + "/plan.yaml";
  const std::string scenario = kGpt2 + " --set framework=eager-sdpa --set batch.micro=4 --set schedule=1f1b --set 'usable=85 %'";
  const std::string degrees = " --set 'parallel={pipeline: 1, tensor: 1, data: 8, zero: 1, virtual_stages: 1}'";
  const json answer = json::parse(answer_of("plan " + scenario + degrees + " --set recompute=auto --json -o " + file));
  ASSERT_THAT(answer["best"]["settings"]["recompute"].get<std::string>(), HasSubstr("operators: [norms, elementwise"));
  const std::string estimate = "estimate --json " + scenario + degrees + " --plan " + file;
  const json again = json::parse(answer_of(estimate))["metrics"];
  EXPECT_EQ(again["step_time_s"], answer["best"]["metrics"]["step_time_s"]);
  EXPECT_EQ(again["peak_memory_bytes"], answer["best"]["metrics"]["peak_memory_bytes"]);
  EXPECT_EQ(json::parse(answer_of(estimate + " --set recompute=auto"))["metrics"], again);
  EXPECT_THAT(refusal_of(estimate + " --set recompute=selective"), HasSubstr("the plan recomputes norms, elementwise"));
}

// Keys left open for the search may stay open for its plan, whose degrees are not those of a scenario that states none.
TEST(PlanFile, FillsWhatIsLeftOpen) {
  const std::string folder = temporary_folder();
  const std::string degrees = "{pipeline: 2, data: 4}";
  ASSERT_EQ(panpipe("estimate " + kGpt2 + " --set 'parallel=" + degrees + "' -o " + folder + "/plan").exit_code, 0);
  const std::string call = "estimate " + kGpt2 + " --plan " + folder + "/plan/plan.yaml";
  const std::string same = panpipe(call).out;
  for (const char* open :
       {" --set parallel={}", " --set parallel.pipeline=auto --set parallel.data=auto", " --set batch.micro=auto"}) {
    EXPECT_EQ(answer_of(call + open), same) << open;
  }
  EXPECT_EQ(panpipe(call + " --set parallel.data=2").exit_code, 2);
}

}  // namespace
}  // namespace panpipe::test
