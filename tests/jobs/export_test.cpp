// Exports for any trainer: what is reported, refused and never dropped.
#include "costmodel/scenario/trainer.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/trainer_jobs.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "jobs/deepspeed/import.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/megatron/import.hpp"
#include "planner/planner.hpp"
#include "tests/jobs/exports.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Export, NumbersOfATrainingAreTheScenarios) {
  const std::string plan = kLlama + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\nparallel: {pipeline: 2, data: 4}\n";
  const ExportedJob open = exported("megatron", plan + "optimizer: adamw\n");
  for (const char* invented : {"\n  --lr", "\n  --min-lr", "\n  --clip-grad", "\n  --weight-decay", "\n  --adam-beta1",
                               "\n  --tokenizer-type", "\n  --mock-data", "\n  --seed"})
    EXPECT_THAT(open.text, Not(HasSubstr(invented)));
  EXPECT_THAT(open.besides, Contains(HasSubstr("--clip-grad, --lr, --min-lr, --lr-decay-style, --lr-warmup-iters, --train-iters, "
                                               "--seed, --tokenizer-type, --data-path. Add your own")));
  const std::string stated =
      plan +
      "optimizer: {name: adamw, learning_rate: 3e-4, betas: [0.9, 0.95], epsilon: 1e-6, weight_decay: 0.1}\nseed: 5\n"
      "training: {clip_gradients: 1, warmup_steps: 10, decay: cosine, decay_steps: 90, minimum_learning_rate: 3e-5}\n"
      "run: {steps: 100}\ndata: {synthetic: true}\n";
  const ExportedJob job = exported("megatron", stated);
  for (const char* argument : {"--lr 0.0003", "--min-lr 3e-05", "--lr-decay-style cosine", "--lr-warmup-iters 10",
                               "--lr-decay-iters 90", "--clip-grad 1", "--weight-decay 0.1", "--adam-beta1 0.9 --adam-beta2 0.95",
                               "--adam-eps 1e-06", "--seed 5", "--train-iters 100", "--mock-data"})
    EXPECT_THAT(job.text, HasSubstr(std::string("\n  ") + argument));
  EXPECT_THAT(job.besides, Contains(HasSubstr("does not state it: --tokenizer-type. Add your own")));
  EXPECT_THAT(exported("deepspeed", plan + "optimizer: adamw\n").text, HasSubstr("\"optimizer\": {\"type\": \"AdamW\", "
                                                                                 "\"params\": {}}\n"));
  EXPECT_THAT(exported("deepspeed", stated).text, HasSubstr("\"lr\": 0.0003, \"betas\": [0.9, 0.95], \"eps\": 1e-06"));
  EXPECT_THAT(exported("torch", plan + "optimizer: adamw\n").besides,
              Contains(HasSubstr("The scenario does not state optimizer.learning_rate")));
}

TEST(Export, NothingIsDroppedInSilence) {
  const ExportedJob job =
      exported("megatron", kGpt +
                               "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
                               "optimizer: {name: adamw, no_decay: [biases]}\ntied_embedding: one-rank\n");
  EXPECT_THAT(job.cannot, Contains("optimizer.no_decay: [biases]"));
  EXPECT_THAT(job.text, HasSubstr("# cannot express optimizer.no_decay: [biases]\n"));
}

TEST(Export, FaultsNameWhatTheTrainerHas) {
  const std::string of_two = "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\noptimizer: adamw\n";
  EXPECT_EQ(fault("megatron", kGpt + of_two + "schedule: zb-h1\n"),
            "error: job.yaml: Megatron-LM does not have the schedule zb-h1; it has 1f1b, interleaved-1f1b\n"
            "  help: panpipe plan --for megatron-core plans without it");
  EXPECT_THAT(fault("megatron", kGpt + of_two + "schedule: 1f1b\npartition: [h.3.mlp]\n"),
              HasSubstr("job.yaml: stage 1 begins inside layer 3 (h.3.mlp), and Megatron-LM cuts between layers"));
  EXPECT_THAT(fault("torch", kGpt + "parallel: {pipeline: 2, tensor: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"),
              HasSubstr("torch.distributed.pipelining does not have tensor parallelism"));
  EXPECT_THAT(fault("torch", kGpt + of_two + "schedule: dualpipe\n"), HasSubstr("PyTorch's CSV cannot express 2 chains"));
  EXPECT_THAT(fault("megatron", kCluster + "workload: {model: bert-base}\n" + of_two + "schedule: 1f1b\n"),
              HasSubstr("pretrain_gpt.py trains language models, and 'bert-base' is none"));
  EXPECT_THROW(exporter_named("megatrn"), InputError);
}

TEST(Export, TextsOfAScenarioStayTexts) {
  EXPECT_EQ(shell_word("/data/a-b_1.5"), "/data/a-b_1.5");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("x';rm -rf $HOME"), "'x'\\'';rm -rf $HOME'");
  const Experiment experiment(scenario(kGpt + "parallel: {data: 8}\nbatch: {micro: 1, microbatches: 8}\n"
                                              "optimizer: {name: adamw, no_decay: [\"a\\nrun me\\x1b[2J\"]}\n"));
  const Plan plan = experiment.plan("");
  for (const TrainerJobs& trainer : trainer_jobs()) {
    if (trainer.write == nullptr) continue;
    SCOPED_TRACE(trainer.name);
    const ExportedJob job = export_job(std::string(trainer.name), {experiment, plan, "job\nrun me", "plan\nrun me", ""});
    EXPECT_THAT(job.text, Not(HasSubstr("\nrun me")));
    EXPECT_THAT(job.text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(job.cannot, Contains("optimizer.no_decay: [a run me [2J]"));
  }
}

// alpha / rank times what the two narrow products make.
TEST(Export, ATorchScriptScalesAdapters) {
  const std::string tuned = kCluster +
                            "workload: {model: llama, layers: 8, hidden: 64, heads: 4, ffn: 128, vocabulary: 1024, sequence: 32, "
                            "lora: {rank: 4, alpha: 8, targets: [q_proj]}}\nparallel: {pipeline: 2, data: 4}\n" +
                            kPlain;
  EXPECT_THAT(exported("torch", tuned).text, HasSubstr(" = x5 * 2.0\n"));
  EXPECT_THAT(exported("torch", kGpt + "parallel: {pipeline: 2, data: 4}\n" + kPlain).text, Not(HasSubstr(" * 1\n")));
}

TEST(Export, KeysOfKnownMapsAreReported) {
  const std::string of_eight = kPlain + "parallel: {pipeline: 2, data: 4}\n";
  const std::string tuned = kCluster +
                            "workload: {model: llama, layers: 8, hidden: 64, heads: 4, ffn: 128, vocabulary: 1024, sequence: 32, "
                            "lora: {rank: 4, targets: [q_proj]}}\nprecision: bf16\n";
  EXPECT_THAT(exported("megatron", tuned + of_eight).cannot, Contains("workload.lora: {rank: 4, targets: [q_proj]}"));
  const std::string formats = kGpt +
                              "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
                              "optimizer: {name: adamw, states: 8bit, master: none}\n";
  EXPECT_THAT(exported("megatron", formats).cannot, ElementsAre("optimizer.states: 8bit", "optimizer.master: none"));
  const std::string capacity =
      kExperts + kPlain + "parallel: {pipeline: 1, data: 8, zero: 2, expert: 4}\nexperts: {capacity: 1}\n";
  EXPECT_THAT(exported("torchtitan", capacity).cannot, Contains("experts.capacity: 1"));
  EXPECT_THAT(exported("megatron", kGpt + of_eight + "overlap_gradients: true\n").cannot, IsEmpty());
  // Of the prediction, not of the job; and a default, which changes no job.
  EXPECT_THAT(exported("megatron", kGpt + of_eight + "trailing_collectives: overlapped\ndescription: words\n").cannot, IsEmpty());
  EXPECT_THAT(exported("megatron", kGpt + of_eight + "tied_embedding: copy\n").cannot, IsEmpty());
  EXPECT_THAT(exported("megatron", kGpt + of_eight + "tied_embedding: one-rank\n").cannot,
              ElementsAre("tied_embedding: one-rank"));
  const std::string nodes = kExperts + kPlain + "framework: {name: megatron-core, expert_dispatch: nodes}\n";
  const ExportedJob flex = exported("megatron", nodes + "parallel: {pipeline: 2, data: 4, expert: 4}\n");
  EXPECT_THAT(flex.text, HasSubstr("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep"));
  EXPECT_THAT(flex.cannot, IsEmpty());
  EXPECT_THAT(exported("torchtitan", nodes + "parallel: {pipeline: 1, data: 8, zero: 2, expert: 4}\n").cannot,
              Contains("framework.expert_dispatch: nodes"));
}

TEST(Export, EightBitsAreNeverFp32) {
  const std::string model = kLlama.substr(0, kLlama.find("precision"));
  const std::string rest = kPlain + "parallel: {pipeline: 2, data: 4, zero: 2}\n";
  EXPECT_THAT(exported("megatron", model + "precision: fp8\n" + rest).text, HasSubstr("--bf16 --fp8-format hybrid"));
  const std::string titan = exported("torchtitan", model + "precision: fp8\n" + rest).text;
  EXPECT_THAT(titan, HasSubstr("converters=[Float8LinearConverter.Config(filter_fqns=[\"lm_head\"], "
                               "model_compile_enabled=False)])\n"));
  EXPECT_THAT(titan, HasSubstr("from torchtitan.components.quantization import Float8LinearConverter\n"));
  EXPECT_THAT(titan, HasSubstr("mixed_precision_param = \"bfloat16\"\n"));
  const ExportedJob deepspeed = exported("deepspeed", model + "precision: fp8\n" + kPlain + "parallel: {pipeline: 2, data: 4}\n");
  EXPECT_THAT(deepspeed.text, HasSubstr("\"bf16\": {\"enabled\": true}"));
  EXPECT_THAT(deepspeed.cannot,
              ElementsAre("precision fp8: products are in bf16; replace the linear layers by Transformer Engine's"));
}

TEST(Export, RecipesHaveTheirNames) {
  const std::string model = kLlama.substr(0, kLlama.find("precision"));
  const auto written = [&](const char* trainer, const std::string& precision, const std::string& choices,
                           const char* zero = "2") {
    return exported(trainer, model + "precision: " + precision + "\n" + kPlain + "framework: {name: megatron-core" + choices +
                                 "}\nparallel: {pipeline: 2, data: 4, zero: " + zero + "}\n");
  };
  const ExportedJob nvfp4 = written("megatron", "nvfp4", ", bf16_first: 1, bf16_last: 2, fp8_parameters: true", "1");
  EXPECT_THAT(nvfp4.text, HasSubstr("--bf16 --fp4-format e2m1 --fp4-recipe nvfp4"));
  EXPECT_THAT(nvfp4.text, HasSubstr("--first-last-layers-bf16 --num-layers-at-start-in-bf16 1 --num-layers-at-end-in-bf16 2"));
  EXPECT_THAT(nvfp4.text, HasSubstr("--fp4-param-gather"));
  EXPECT_THAT(nvfp4.cannot, IsEmpty());
  EXPECT_THAT(written("megatron", "fp8", ", fp8_scaling: blocks").text, HasSubstr("--fp8-format e4m3 --fp8-recipe blockwise"));
  // Megatron-LM refuses such blocks under delayed scaling, and has no scales of rows.
  EXPECT_THAT(written("megatron", "fp8", ", bf16_last: 2").cannot, Contains("framework.bf16_last: 2"));
  EXPECT_THAT(written("megatron", "fp8", ", fp8_scaling: rows").cannot,
              Contains("FP8 with scales of rows: products are in bf16"));
  EXPECT_THAT(written("megatron", "mxfp4", "").cannot, Contains("MXFP4: products are in bf16"));
  EXPECT_THAT(written("torchtitan", "fp8", ", fp8_scaling: rows-except-weights").text,
              HasSubstr("Float8LinearConverter.Config(recipe_name=\"rowwise_with_gw_hp\", filter_fqns"));
  EXPECT_THAT(written("torchtitan", "nvfp4", "").text, HasSubstr("NVFP4LinearConverter.Config("));
  EXPECT_THAT(written("torchtitan", "nvfp4", ", bf16_last: 2").cannot, Contains("framework.bf16_last: 2"));
}

TEST(Export, RunsAreAsLongAsTheScenarioStates) {
  const std::string of_eight = kPlain + "parallel: {pipeline: 2, data: 4, zero: 2}\n";
  // 1 x 4 x 4 samples of 32 tokens a step: 51200 / 512 = 100; one token more begins another step.
  EXPECT_THAT(exported("megatron", kLlama + of_eight + "run: {tokens: 51201}\n").text, HasSubstr("--train-iters 101"));
  EXPECT_THAT(exported("megatron", kLlama + of_eight + "run: {samples: 320}\n").text, HasSubstr("--train-iters 20"));
  EXPECT_THAT(exported("torchtitan", kLlama + of_eight + "run: {steps: 7}\n").text, HasSubstr("training.steps = 7\n"));
  EXPECT_THAT(exported("torch", kLlama + kPlain + "parallel: {pipeline: 2, data: 4}\nrun: {steps: 7}\n").text,
              HasSubstr("FILE --steps 7\n"));
  EXPECT_THAT(exported("deepspeed", kLlama + kPlain + "parallel: {pipeline: 2, data: 4}\nrun: {steps: 7}\n").besides,
              Contains("In code: the run takes 7 steps."));
  EXPECT_THAT(exported("megatron", kLlama + of_eight + "training: {warmup_steps: 2000}\nrun: {steps: 100}\n").text,
              HasSubstr("--train-iters 2001"));
  EXPECT_THAT(exported("megatron", kLlama + of_eight).text, Not(HasSubstr("\n  --train-iters")));
}

TEST(Export, StatesInTheHostsMemory) {
  const std::string one = "offload: {optimizer: cpu}\n", both = "offload: {optimizer: cpu, parameters: cpu}\n";
  const ExportedJob megatron = exported("megatron", kLlama + kPlain + one + "parallel: {pipeline: 2, data: 4, zero: 1}\n");
  EXPECT_THAT(megatron.text, HasSubstr("--use-precision-aware-optimizer \\\n  --optimizer-cpu-offload"));
  EXPECT_THAT(megatron.cannot, IsEmpty());
  const std::string whole = "parallel: {pipeline: 1, data: 8, zero: 3}\n";
  const std::string streams = "offload: {optimizer: stream, gradients: cpu, blocks: 8}\n";
  const ExportedJob blocks = exported("megatron", kLlama + kPlain + streams + "parallel: {pipeline: 1, data: 8, zero: 1}\n");
  EXPECT_THAT(blocks.text, HasSubstr("--cpu-offloading --cpu-offloading-num-layers 8"));
  EXPECT_THAT(blocks.text, Not(HasSubstr("--optimizer-cpu-offload")));
  EXPECT_THAT(blocks.cannot, ElementsAre("offload.optimizer: stream", "offload.gradients: cpu"));
  EXPECT_THAT(exported("megatron", kLlama + kPlain + both + whole).cannot,
              ElementsAre("offload.optimizer: cpu", "offload.parameters: cpu"));
  EXPECT_THAT(exported("torchtitan", kLlama + kPlain + both + whole).text, HasSubstr("enable_cpu_offload = True\n"));
  EXPECT_THAT(exported("torchtitan", kLlama + kPlain + one + whole).cannot, Contains("offload.optimizer: cpu"));
  EXPECT_THAT(exported("deepspeed", kLlama + kPlain + both + whole).text,
              HasSubstr("\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}}"));
}

// What plans may choose is what the exporters write.
TEST(Export, TrainersHaveTheOrdersThatPyTorchTakes) {
  std::vector<std::string> torch, torchtitan;
  for (const TorchSchedule& one : torch_schedules()) {
    torch.emplace_back(one.family);
    if (one.loop || !one.name.empty()) torchtitan.emplace_back(one.family);  // it lays stages of a file's order in a loop
  }
  EXPECT_EQ(load_trainer("torch").schedules, torch);
  EXPECT_EQ(load_trainer("torchtitan").schedules, torchtitan);
}

// A plan that was searched for a trainer is one that it can express.
TEST(Export, PlansForATrainerAreExportedWhole) {
  const std::string open = kLlama +
                           "batch: {micro: 1, microbatches: 16}\nparallel: {pipeline: 4, data: 2}\n"
                           "schedule: [zb-h1, interleaved-1f1b, 1f1b]\noptimizer: adamw\n";
  const Experiment experiment(scenario("trainer: megatron\n" + open));
  const planner::Answer answer = planner::search(experiment, {});
  ASSERT_FALSE(answer.candidates.empty());
  for (const planner::Candidate& candidate : answer.candidates) {
    EXPECT_THAT(*experiment.scenario.trainer->schedules, Contains(candidate.schedule));
    EXPECT_THAT(exported("megatron", experiment, *candidate.plan).cannot, IsEmpty()) << candidate.summary;
  }
}

}  // namespace
}  // namespace panpipe::jobs
