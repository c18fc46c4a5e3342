// Plans in the words of other trainers: their text, that it is read back as the same plan, and the reports.
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
#include "jobs/torchtitan/import.hpp"
#include "planner/planner.hpp"
#include "tests/fault.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kCluster = "panpipe: 1\ncluster: {file: clusters/h100x8.yaml, nodes: 1}\n";
const std::string kGpt =
    kCluster + "workload: {model: gpt, layers: 8, hidden: 64, heads: 4, vocabulary: 1024, sequence: 32}\nprecision: bf16\n";
const std::string kLlama =
    kCluster +
    "workload: {config: {model_type: llama, num_hidden_layers: 8, hidden_size: 64, num_attention_heads: 4, num_key_value_heads: "
    "2, "
    "intermediate_size: 128, vocab_size: 1024, max_position_embeddings: 64}, sequence: 32}\nprecision: bf16\n";

Scenario scenario(const std::string& text) { return parse_scenario(text, "job.yaml", "."); }

ExportedJob exported(const std::string& trainer, const Experiment& experiment, const Plan& plan, const std::string& file = "") {
  return export_job(trainer, {experiment, plan, "job.yaml", "", file});
}
ExportedJob exported(const std::string& trainer, const std::string& text, const std::string& file = "") {
  const Experiment experiment(scenario(text));
  return exported(trainer, experiment, experiment.plan(""), file);
}

std::string fault(const std::string& trainer, const std::string& text) {
  return test::fault_of([&] { exported(trainer, text); });
}

std::vector<std::pair<int, int>> units_of(const Plan& plan) {
  std::vector<std::pair<int, int>> units;
  for (const StagePlan& stage : plan.stages) units.emplace_back(stage.first_unit, stage.end_unit);
  return units;
}

// An export for Megatron-LM, imported, is the plan and the model that were exported.
void expect_same_job(const std::string& text) {
  SCOPED_TRACE(text);
  const Experiment ours(scenario(text));
  const Plan plan = ours.plan("");
  const ExportedJob job = exported("megatron", ours, plan);
  SCOPED_TRACE(job.text);
  EXPECT_THAT(job.cannot, IsEmpty());
  const ImportedJob imported = import_megatron(job.text, "job.sh", {});
  EXPECT_THAT(imported.not_understood, IsEmpty());
  const Experiment theirs(parse_scenario(scenario_text(imported), "imported.yaml", "."));
  const Plan back = theirs.plan("");
  const Degrees &degrees = plan, &degrees_back = back;
  EXPECT_EQ(degrees, degrees_back);
  EXPECT_EQ(units_of(plan), units_of(back));
  EXPECT_EQ(plan.schedule.order, back.schedule.order);
  EXPECT_EQ(plan.schedule.stage_to_rank, back.schedule.stage_to_rank);
  EXPECT_EQ(plan.stages.front().recompute, back.stages.front().recompute);
  EXPECT_EQ(ours.workload.trained_parameters, theirs.workload.trained_parameters);
  EXPECT_EQ(ours.scenario.precision, theirs.scenario.precision);
}

TEST(Export, TheLayoutStatesEveryStage) {
  EXPECT_EQ(layout_text({2, 3, 1}), "Et*2|t*3|tL");
  EXPECT_EQ(layout_text({0, 8, 0}), "E|t*8|L");
  EXPECT_EQ(layout_text({4}), "Et*4L");
}

TEST(Export, MegatronsArgumentsAreReadBackAsTheSamePlan) {
  expect_same_job(kGpt +
                  "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 2, microbatches: 4}\nschedule: 1f1b\n"
                  "partition: [h.3.attention]\noptimizer: adamw\n");
  expect_same_job(kGpt +
                  "parallel: {pipeline: 4, tensor: 2, sequence_parallel: true}\nbatch: {micro: 1, microbatches: 8}\n"
                  "schedule: 1f1b\nrecompute: full\noptimizer: adamw\n");
  // Virtual stages whose cuts are not even, in Megatron's order: stage s on rank s mod 2.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 2, tensor: 2, data: 2, virtual_stages: 3, zero: 1}\n"
                  "batch: {micro: 1, microbatches: 4}\nschedule: interleaved-1f1b\n"
                  "partition: [h.1.attention, h.3.attention, h.4.attention, h.5.attention, h.7.attention]\noptimizer: adamw\n");
  // Six microbatches over four ranks go in one turn of six.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 4, data: 2, virtual_stages: 2}\nbatch: {micro: 1, microbatches: 6}\n"
                  "schedule: interleaved-1f1b\nrecompute: selective\noptimizer: adamw\n");
  // One replica whose two context ranks divide the optimizer's state, and moments in two bytes.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 4, data: 1, context: 2, zero: 1}\nbatch: {micro: 1, microbatches: 4}\n"
                  "schedule: 1f1b\noptimizer: {name: adamw, states: bf16}\n");
  // The last stage holds norm, head and loss alone; parameters are divided.
  expect_same_job(kLlama +
                  "parallel: {pipeline: 2, data: 4, zero: 3}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
                  "partition: [head]\noptimizer: adamw\n");
}

TEST(Export, MegatronHasExpertsAndLatentAttention) {
  const std::string experts =
      kCluster +
      "workload: {config: {model_type: qwen3_moe, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, "
      "num_key_value_heads: 2, head_dim: 16, intermediate_size: 128, moe_intermediate_size: 32, num_experts: 8, "
      "num_experts_per_tok: 2, norm_topk_prob: true, mlp_only_layers: [0], vocab_size: 1024, max_position_embeddings: 64}, "
      "sequence: 32}\nparallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
      "partition: [h.1.attention]\noptimizer: adamw\n";
  expect_same_job(experts + "precision: bf16\n");
  EXPECT_THAT(exported("megatron", experts + "precision: bf16\n").text, HasSubstr("--moe-layer-freq '([0]*1+[1]*3)'"));
  EXPECT_THAT(exported("megatron", experts + "precision: bf16\n").text, HasSubstr("--moe-grouped-gemm"));
  EXPECT_THAT(exported("megatron", experts + "precision: fp32\n").text, Not(HasSubstr("\n  --moe-grouped-gemm")));
  EXPECT_THAT(exported("megatron", experts + "precision: fp32\n").cannot, ElementsAre(HasSubstr("(--moe-grouped-gemm)")));
}

TEST(Export, MegatronsFlagsNeedEachOther) {
  const std::string overlap =
      "framework: {name: megatron-core, overlap_reduce_scatter: true, overlap_parameter_gather: true, "
      "overlap_tensor_collectives: "
      "true}\nbatch: {micro: 1, microbatches: 4}\noptimizer: adamw\nschedule: 1f1b\n";
  const std::string sharded = exported("megatron", kGpt + overlap + "parallel: {pipeline: 2, data: 4, zero: 1}\n").text;
  EXPECT_THAT(sharded, HasSubstr("--use-distributed-optimizer"));
  EXPECT_THAT(sharded, HasSubstr("--overlap-grad-reduce --overlap-param-gather"));
  EXPECT_THAT(sharded, Not(HasSubstr("--tp-comm-overlap")));  // tensor 1
  const std::string whole = exported("megatron", kGpt + overlap + "parallel: {pipeline: 2, data: 4, zero: 3}\n").text;
  EXPECT_THAT(whole,
              HasSubstr("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --use-distributed-optimizer"));
  EXPECT_THAT(whole, HasSubstr("--no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor"));
  const std::string tensor =
      exported("megatron", kGpt + overlap + "parallel: {pipeline: 2, tensor: 4, sequence_parallel: true}\n").text;
  EXPECT_THAT(tensor, HasSubstr("--tp-comm-overlap"));
  EXPECT_THAT(tensor, Not(HasSubstr("--overlap-grad-reduce")));  // one replica
}

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

TEST(Export, MegatronsMomentsHaveTheirFormat) {
  const std::string plan = kLlama + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n";
  const std::string eight = "optimizer: {name: adamw, states: 8bit}\n";
  EXPECT_THAT(exported("megatron", plan + eight + "parallel: {pipeline: 2, data: 4, zero: 1}\n").text,
              HasSubstr("--use-precision-aware-optimizer \\\n  --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8"));
  EXPECT_THAT(exported("megatron", plan + eight + "parallel: {pipeline: 8, data: 1}\n").text,
              HasSubstr("--use-precision-aware-optimizer --use-distributed-optimizer \\\n  --exp-avg-dtype fp8"));
  // It needs the distributed optimizer.
  EXPECT_THAT(exported("megatron", plan + eight + "parallel: {pipeline: 2, data: 4}\n").cannot,
              ElementsAre("optimizer.states: 8bit"));
}

TEST(Export, NanotronsConfiguration) {
  const std::string plan = kLlama + "batch: {micro: 1, microbatches: 4}\nparallel: {pipeline: 2, tensor: 2, data: 2, zero: 1}\n";
  const ExportedJob job =
      exported("nanotron", plan +
                               "schedule: 1f1b\npartition: [h.5.attention]\nseed: 5\ndata: {synthetic: true}\n"
                               "optimizer: {name: adamw, learning_rate: 3e-4, betas: [0.9, 0.95]}\n"
                               "training: {warmup_steps: 10, decay: cosine, decay_steps: 90, "
                               "minimum_learning_rate: 3e-5}\nrun: {steps: 100}\n");
  EXPECT_THAT(job.cannot, IsEmpty());
  for (const char* part :
       {"parallelism:\n  dp: 2\n  pp: 2\n  tp: 2\n", "  pp_engine: 1f1b\n", "  model_config:\n    is_llama_config: true\n",
        "  accumulate_grad_in_fp32: true\n", "  zero_stage: 1\n", "    adam_beta2: 0.95\n", "  train_steps: 100\n",
        "  learning_rate_scheduler:\n    learning_rate: 0.0003\n    lr_warmup_steps: 10\n    lr_warmup_style: linear\n"
        "    lr_decay_style: cosine\n    lr_decay_starting_step: 10\n    lr_decay_steps: 80\n    min_decay_lr: 3.0e-05\n",
        "data_stages: [{name: drawn, start_training_step: 1, data: {dataset: null}}]\n"})
    EXPECT_THAT(job.text, HasSubstr(part));
  EXPECT_THAT(job.besides, Contains(HasSubstr("does not state it: general.project, model.init_method, "
                                              "optimizer.optimizer_factory.adam_eps, optimizer.weight_decay, "
                                              "optimizer.clip_grad, tokenizer. Add your own")));
  EXPECT_THAT(exported("nanotron", plan + "schedule: gpipe\npartition: [h.6.attention]\noptimizer: adam\n").cannot,
              ElementsAre("stages of 6, 2 layers: nanotron divides by a rule of its own, into 5, 3",
                          "optimizer adam: it trains with AdamW"));
  EXPECT_THAT(fault("nanotron", kLlama + "batch: {micro: 1, microbatches: 1}\nparallel: {data: 8, zero: 3}\noptimizer: adamw\n"),
              HasSubstr("nanotron divides no gradients and no parameters, and the plan has ZeRO 3"));
  EXPECT_THAT(
      fault("nanotron", kLlama + "batch: {micro: 1, microbatches: 1}\nparallel: {data: 2, tensor: 4}\noptimizer: adamw\n"),
      HasSubstr("a head of keys and values, and the model has 2 for 4 ranks"));
}

TEST(Export, AcceleratesConfiguration) {
  const std::string head = kLlama + "batch: {micro: 2, microbatches: 4}\noptimizer: adamw\ntrainer: accelerate\n";
  const ExportedJob job =
      exported("accelerate", head +
                                 "recompute: full\nparallel: {data: 2, tensor: 2, context: 2, shard: 2, zero: 3, "
                                 "context_exchange: all-gather}\ntraining: {clip_gradients: 1}\n");
  EXPECT_THAT(job.cannot, IsEmpty());
  EXPECT_THAT(job.text, HasSubstr("distributed_type: FSDP\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\n"
                                  "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
                                  "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_activation_checkpointing: true\n"
                                  "  fsdp_offload_params: false\nparallelism_config:\n"
                                  "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 1\n"
                                  "  parallelism_config_tp_size: 2\n  parallelism_config_cp_size: 2\n"
                                  "  parallelism_config_cp_comm_strategy: allgather\n"));
  EXPECT_THAT(job.besides, Contains(HasSubstr("In code: batches of 2 sequences of 32 tokens, "
                                              "Accelerator(gradient_accumulation_steps=4), "
                                              "accelerator.clip_grad_norm_(parameters, 1), the model")));
  const ExportedJob zero1 = exported("accelerate", head + "parallel: {data: 8, zero: 1}\n");
  EXPECT_THAT(zero1.text, HasSubstr("distributed_type: DEEPSPEED\n"));
  EXPECT_THAT(zero1.text, HasSubstr("  zero_stage: 1\n  gradient_accumulation_steps: 4\n"));
  EXPECT_THAT(zero1.cannot, ElementsAre("ZeRO 1 with PyTorch's kernels: it is DeepSpeed's"));
  EXPECT_THAT(exported("accelerate", head + "parallel: {data: 8}\nrecompute: full\n").besides,
              Contains(HasSubstr("model.gradient_checkpointing_enable()")));
  EXPECT_THAT(
      fault("accelerate", head + "parallel: {tensor: 2, data: 4}\n"),
      HasSubstr("Accelerate has tensor and context parallelism with FSDP alone, and the plan has tensor 2, context 1 without"));
  EXPECT_THAT(fault("accelerate", head + "parallel: {pipeline: 2, data: 4}\nschedule: 1f1b\n"),
              HasSubstr("Accelerate does not have pipelines"));
}

TEST(Export, TrainingArgumentsOfHuggingFace) {
  const std::string head = kLlama + "batch: {micro: 2, microbatches: 4}\ntrainer: huggingface\n";
  const ExportedJob job =
      exported("huggingface", head +
                                  "recompute: full\nparallel: {data: 8, zero: 2}\nseed: 5\nrun: {steps: 100}\n"
                                  "optimizer: {name: adamw, learning_rate: 3e-4, states: 8bit}\n"
                                  "training: {clip_gradients: 0.5, warmup_steps: 10, decay: cosine, decay_steps: 100, "
                                  "minimum_learning_rate: 3e-5}\n");
  EXPECT_THAT(job.cannot, IsEmpty());
  EXPECT_EQ(job.text,
            "{\n  \"per_device_train_batch_size\": 2,\n  \"gradient_accumulation_steps\": 4,\n  \"gradient_checkpointing\": "
            "false,\n  \"fsdp\": \"shard_grad_op auto_wrap\",\n  \"bf16\": true,\n  \"fp16\": false,\n  \"optim\": "
            "\"adamw_bnb_8bit\",\n  \"learning_rate\": 0.0003,\n  \"max_grad_norm\": 0.5,\n  \"warmup_steps\": 10,\n  "
            "\"lr_scheduler_type\": \"cosine_with_min_lr\",\n  \"lr_scheduler_kwargs\": {\"min_lr\": 3e-05},\n  "
            "\"max_steps\": 100,\n  \"seed\": 5,\n  \"fsdp_config\": {\"activation_checkpointing\": true}\n}\n");
  EXPECT_THAT(job.besides,
              Contains(HasSubstr("does not state it: output_dir, adam_beta1, adam_beta2, adam_epsilon, weight_decay. ")));
  const std::string plan = head + "optimizer: adamw\n";
  EXPECT_THAT(fault("huggingface", plan + "parallel: {data: 8, zero: 1}\n"),
              HasSubstr("the Trainer has ZeRO 1 by DeepSpeed alone"));
  EXPECT_THAT(fault("huggingface", plan + "parallel: {data: 4, tensor: 2}\n"),
              HasSubstr("TrainingArguments in a file state no tensor and no context parallelism"));
}

TEST(Export, DeepSpeedsCutsAreReadBack) {
  const std::string job = exported("deepspeed", kLlama +
                                                    "parallel: {pipeline: 4, data: 2}\nbatch: {micro: 2, microbatches: 4}\n"
                                                    "schedule: 1f1b\npartition: [h.3.attention, h.5.attention, head]\n"
                                                    "optimizer: adamw\n")
                              .text;
  JobOptions options;
  options.model = "model.json";
  options.gpus = 8;
  const ImportedJob back = import_deepspeed(job, "ds_config.json", options);
  EXPECT_THAT(back.not_understood, IsEmpty());
  const auto cuts = std::find_if(back.values.begin(), back.values.end(), [](const auto& v) { return v.key == "partition"; });
  ASSERT_NE(cuts, back.values.end());
  EXPECT_EQ(cuts->value, "[h.3.attention, h.5.attention, head]");
  EXPECT_THAT(test::fault_of([&] {
                import_deepspeed("{\"pipeline\": {\"stages\": 2}, \"_panpipe\": {\"parts\": [0, 9, 4]}}", "x.json", options);
              }),
              HasSubstr("is no list of growing numbers"));
}

TEST(Export, NothingIsDroppedInSilence) {
  const ExportedJob job =
      exported("megatron", kGpt +
                               "parallel: {pipeline: 2, data: 4}\nbatch: {micro: 1, microbatches: 4}\nschedule: 1f1b\n"
                               "optimizer: {name: adamw, no_decay: [biases]}\ntied_embedding: one-rank\n");
  EXPECT_THAT(job.cannot, Contains("optimizer.no_decay: [biases]"));
  EXPECT_THAT(job.text, HasSubstr("# cannot express optimizer.no_decay: [biases]\n"));
}

TEST(Export, TorchtitanHasModulesAndAnOrderFile) {
  const std::string text = kLlama +
                           "parallel: {pipeline: 2, data: 4, zero: 3}\nbatch: {micro: 1, microbatches: 4}\noptimizer: adamw\n"
                           "partition: [h.3.attention]\n";
  const ExportedJob named = exported("torchtitan", text + "schedule: 1f1b\n", "out/job.py");
  EXPECT_THAT(named.text, HasSubstr("    config.parallelism.module_fqns_per_model_part = [\n"
                                    "        [\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\"],\n"
                                    "        [\"layers.3\", \"layers.4\", \"layers.5\", \"layers.6\", \"layers.7\", \"norm\", "
                                    "\"lm_head\"],\n    ]\n"));
  EXPECT_THAT(named.text, HasSubstr("pipeline_parallel_schedule = \"1F1B\"\n"));
  EXPECT_THAT(named.text, HasSubstr("data_parallel_shard_degree = 4\n"));
  EXPECT_THAT(named.text, HasSubstr("\n\ndef job():\n    config = llama3_debugmodel()\n"));
  EXPECT_THAT(named.text, HasSubstr("training.disable_cuda_graphs = True\n"));
  EXPECT_THAT(named.besides, Contains(HasSubstr("PYTHONPATH=. torchrun --nproc-per-node 8 -m torchtitan.train --module job")));
  EXPECT_THAT(exported("torchtitan", text + "schedule: 1f1b\n", "out/my-job.py").besides,
              Contains(HasSubstr("cannot import a file of the name 'my-job'")));
  EXPECT_EQ(named.schedule_csv, "");
  const ExportedJob with_order = exported("torchtitan", text + "schedule: zb-h1\n", "out/job.py");
  EXPECT_THAT(with_order.text, HasSubstr("out/job.csv\"\n"));
  EXPECT_THAT(with_order.text, HasSubstr("pipeline_parallel_schedule = \"PipelineScheduleSingle\"\n"));
  // zb-h1 of 2 ranks and 4 microbatches: the first rank runs two forwards ahead.
  EXPECT_EQ(with_order.schedule_csv.substr(0, 12), "0F0,0F1,0I0,");
  EXPECT_EQ(order_file_of("a.b/job"), "a.b/job.csv");
}

TEST(Export, DeepSpeedTakesStagesInCode) {
  const ExportedJob job =
      exported("deepspeed", kLlama +
                                "parallel: {pipeline: 2, data: 4, zero: 1}\nbatch: {micro: 2, microbatches: 4}\n"
                                "schedule: 1f1b\npartition: [h.3.attention]\noptimizer: adamw\n"
                                "training: {clip_gradients: 1}\n");
  EXPECT_THAT(job.text, HasSubstr("\"train_batch_size\": 32,\n  \"train_micro_batch_size_per_gpu\": 2,\n"));  // 2 x 4 x 4
  EXPECT_THAT(job.text, HasSubstr("\"gradient_accumulation_steps\": 4"));
  EXPECT_THAT(job.text, HasSubstr("\"gradient_clipping\": 1"));
  EXPECT_THAT(job.text, HasSubstr("\"bf16\": {\"enabled\": true}"));
  EXPECT_THAT(job.text, HasSubstr("\"stage\": 1"));
  // The list has the embedding in front of 8 layers, and norm with head behind: 1 + 3 entries, then 5 + 1.
  EXPECT_THAT(job.text, HasSubstr("self.parts = [0, 4, 10]"));
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

const std::string kPlain = "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\noptimizer: adamw\n";
const std::string kExperts =
    kCluster +
    "workload: {config: {model_type: qwen3_moe, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 16, intermediate_size: 128, moe_intermediate_size: 32, num_experts: 8, "
    "num_experts_per_tok: 2, norm_topk_prob: true, vocab_size: 1024, max_position_embeddings: 64}, sequence: 32}\n"
    "precision: bf16\n";

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

// What decides how experts are launched comes back, and with it the prediction.
TEST(Export, MegatronLaunchesExpertsAlike) {
  const std::string text = kExperts + kPlain + "parallel: {pipeline: 2, data: 4, expert: 4}\n";
  for (const std::string choices :
       {"framework: megatron-core\n", "framework: {name: megatron-core, expert_products: loop}\n",
        "framework: {name: megatron-core, expert_forward_operators: 45, expert_backward_operators: 28}\n",
        "framework: megatron-core\nexperts: {capacity: 1.25}\n"}) {
    SCOPED_TRACE(choices);
    const Experiment ours(scenario(text + choices));
    const ExportedJob job = exported("megatron", ours, ours.plan(""));
    EXPECT_THAT(job.cannot, IsEmpty());
    const Experiment theirs(parse_scenario(scenario_text(import_megatron(job.text, "job.sh", {})), "imported.yaml", "."));
    EXPECT_EQ(ours.scenario.framework.expert_products, theirs.scenario.framework.expert_products);
    EXPECT_EQ(ours.scenario.framework.expert_forward_operators, theirs.scenario.framework.expert_forward_operators);
    EXPECT_EQ(ours.scenario.expert_load.capacity, theirs.scenario.expert_load.capacity);
    const auto forward = [](const Experiment& made) {
      Duration sum(0);
      for (const UnitCost& unit : made.model.workload(0).units) sum += unit.forward.breakdown.total + unit.forward.host.other;
      return sum.base();
    };
    EXPECT_NEAR(forward(ours), forward(theirs), 1e-12);
  }
}

TEST(Export, MegatronRecomputesModules) {
  const std::string text = kExperts + kPlain + "parallel: {pipeline: 2, data: 4}\n";
  const ExportedJob job = exported("megatron", text + "recompute: {modules: [core_attn, moe_act, layernorm]}\n");
  EXPECT_THAT(job.text, HasSubstr("--recompute-granularity selective --recompute-modules core_attn moe_act layernorm"));
  EXPECT_THAT(exported("megatron", text + "recompute: {modules: [moe]}\n").text, HasSubstr("--recompute-modules moe \\\n"));
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

TEST(Export, TorchtitanCountsDataRanksWithoutContext) {
  const auto titan = [](const std::string& parallel) { return exported("torchtitan", kLlama + kPlain + parallel); };
  // 4 replicas of 2 context ranks: 8 ranks divide, 4 of them by data.
  const ExportedJob whole = titan("parallel: {pipeline: 1, data: 4, context: 2, zero: 3}\n");
  EXPECT_THAT(whole.text,
              HasSubstr("data_parallel_replicate_degree = 1\n    config.parallelism.data_parallel_shard_degree = 4\n"));
  EXPECT_THAT(whole.text, HasSubstr("context_parallel_degree = 2\n"));
  EXPECT_THAT(whole.cannot, Contains("parallel.context_exchange ring: keys and values are gathered"));
  // Shard groups of 4: 2 data ranks of 2 context ranks each, held twice.
  const ExportedJob hybrid = titan("parallel: {pipeline: 1, data: 4, context: 2, zero: 3, shard: 4}\n");
  EXPECT_THAT(hybrid.text,
              HasSubstr("data_parallel_replicate_degree = 2\n    config.parallelism.data_parallel_shard_degree = 2\n"));
  EXPECT_THAT(hybrid.cannot, Not(Contains(HasSubstr("parallel.shard"))));
  EXPECT_EQ(fault("torchtitan", kLlama + kPlain + "parallel: {pipeline: 2, data: 4}\n"),
            "error: job.yaml: torchtitan cannot run replicas without FSDP beside other parallelism, and the plan has data 4 with "
            "pipeline 2 and tensor 1\n  help: state parallel.zero 2 or 3; panpipe plan --for torchtitan plans with them");
  EXPECT_THAT(fault("torchtitan", kLlama + kPlain + "parallel: {pipeline: 1, data: 2, context: 4, zero: 3, shard: 2}\n"),
              HasSubstr("torchtitan divides over data ranks times context 4, and the plan's shard groups have 2 ranks"));
  // Its FSDP runs over one rank too, and mixes precisions there.
  for (const char* parallel : {"parallel: {pipeline: 8, data: 1}\n", "parallel: {pipeline: 1, data: 8}\n"})
    EXPECT_THAT(exported("torchtitan", kLlama + kPlain + parallel, "job.py").cannot,
                Not(Contains(HasSubstr("it trains in fp32"))));
}

TEST(Export, MegatronsModelArguments) {
  const std::string of_eight = kPlain + "parallel: {pipeline: 2, data: 4}\n";
  const auto scaled = [&](const std::string& scaling) {
    std::string text = kLlama;
    text.insert(text.find("vocab_size"), "rope_scaling: " + scaling + ", ");
    return exported("megatron", text + of_eight);
  };
  const std::string llama3 = "{rope_type: llama3, factor: 32, low_freq_factor: 1, high_freq_factor: 4, ";
  EXPECT_THAT(scaled(llama3 + "original_max_position_embeddings: 8192}").text,
              HasSubstr("--use-rope-scaling --rope-scaling-factor 32"));
  EXPECT_THAT(scaled(llama3 + "original_max_position_embeddings: 4096}").cannot,
              ElementsAre("the scaling of rotary positions: llama3 32 1 4 4096"));
  EXPECT_THAT(scaled("{rope_type: linear, factor: 4}").text, HasSubstr("--rotary-seq-len-interpolation-factor 4"));
  EXPECT_THAT(exported("megatron", kExperts + kPlain + "parallel: {pipeline: 2, data: 4, expert: 4}\n").text,
              HasSubstr("--moe-token-dispatcher-type alltoall"));
  EXPECT_THAT(fault("megatron", kExperts + kPlain + "parallel: {pipeline: 2, tensor: 2, data: 2}\n"),
              HasSubstr("trains experts beside tensor parallelism with sequence parallelism only, and the plan has tensor 2"));
  const ExportedJob context =
      exported("megatron", kLlama + kPlain + "parallel: {pipeline: 2, data: 2, context: 2, context_exchange: all-gather}\n");
  EXPECT_THAT(context.text, HasSubstr("--cp-comm-type all_gather"));
  EXPECT_THAT(context.text, HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"));
  EXPECT_THAT(context.cannot, IsEmpty());
  const std::string latent =
      kCluster +
      "workload: {config: {model_type: deepseek_v3, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, q_lora_rank: "
      "16, kv_lora_rank: 16, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16, intermediate_size: 128, "
      "n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32, n_shared_experts: 1, n_group: 1, topk_group: 1, "
      "first_k_dense_replace: 1, vocab_size: 1024, max_position_embeddings: 64, num_nextn_predict_layers: 0}, sequence: 32}\n"
      "precision: bf16\n";
  EXPECT_THAT(exported("megatron", latent + of_eight).text, HasSubstr("--qk-layernorm --rope-type rope \\\n  --multi-latent"));
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
  EXPECT_THAT(exported("megatron", kLlama + kPlain + both + whole).cannot,
              ElementsAre("offload.optimizer: cpu", "offload.parameters: cpu"));
  EXPECT_THAT(exported("torchtitan", kLlama + kPlain + both + whole).text, HasSubstr("enable_cpu_offload = True\n"));
  EXPECT_THAT(exported("torchtitan", kLlama + kPlain + one + whole).cannot, Contains("offload.optimizer: cpu"));
  EXPECT_THAT(exported("deepspeed", kLlama + kPlain + both + whole).text,
              HasSubstr("\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}}"));
}

TEST(Export, DeepSpeedsOptimizersAreTheScenarios) {
  const std::string base =
      kLlama + "batch: {micro: 1, microbatches: 4}\nschedule: 1f1b\nparallel: {pipeline: 2, data: 4, zero: 1}\n";
  EXPECT_THAT(exported("deepspeed", base + "optimizer: adam\n").text, HasSubstr("\"adam_w_mode\": false"));
  EXPECT_THAT(exported("deepspeed", base + "optimizer: adamw\n").text, Not(HasSubstr("adam_w_mode")));
  EXPECT_THAT(exported("deepspeed", base + "optimizer: sgd\n").text, HasSubstr("\"zero_allow_untested_optimizer\": true"));
  EXPECT_THAT(exported("deepspeed", base + "optimizer: {name: sgd, learning_rate: 0.00012345678}\n").text,
              HasSubstr("\"lr\": 0.00012345678,"));
}

// An export for torchtitan is Python that is read, and gives the plan again.
TEST(Export, TorchtitansConfigurationIsReadBack) {
  const std::string model =
      kCluster +
      "workload: {config: {model_type: llama, num_hidden_layers: 6, hidden_size: 256, num_attention_heads: 16, "
      "num_key_value_heads: 16, intermediate_size: 768, rope_theta: 500000, tie_word_embeddings: false, rms_norm_eps: 1e-05, "
      "max_position_embeddings: 131072, vocab_size: 2048}, sequence: 64}\n";
  for (const std::string plan :
       {"parallel: {pipeline: 2, data: 2, tensor: 2, zero: 2, sequence_parallel: true}\nschedule: 1f1b\n"
        "partition: [h.4.attention]\nrecompute: full\nprecision: bf16\nframework: torchtitan\n",
        "parallel: {pipeline: 2, data: 4, zero: 2, virtual_stages: 2}\nschedule: interleaved-1f1b\nprecision: fp8\n"
        "partition: [h.1.attention, h.2.attention, head]\nframework: {name: torchtitan, elementwise: eager, normalization: "
        "modules}\n",
        "parallel: {pipeline: 1, data: 4, zero: 3, context: 2, context_exchange: all-gather}\nprecision: bf16\n"
        "recompute: {operators: [norms, elementwise, second-products]}\nframework: torchtitan\n"}) {
    const std::string text = model + plan + "batch: {micro: 1, microbatches: 4}\noptimizer: {name: adamw, states: bf16}\n";
    SCOPED_TRACE(text);
    const Experiment ours(scenario(text));
    const Plan wanted = ours.plan("");
    const ExportedJob job = exported("torchtitan", ours, wanted, "job.py");
    SCOPED_TRACE(job.text);
    EXPECT_THAT(job.cannot, IsEmpty());
    const ImportedJob imported = import_torchtitan(job.text, "job.py", {});
    EXPECT_THAT(imported.not_understood, IsEmpty());
    const Experiment theirs(parse_scenario(scenario_text(imported), "imported.yaml", "."));
    const Plan back = theirs.plan("");
    const Degrees &degrees = wanted, &degrees_back = back;
    EXPECT_EQ(degrees, degrees_back);
    EXPECT_EQ(units_of(wanted), units_of(back));
    EXPECT_EQ(wanted.schedule.order, back.schedule.order);
    EXPECT_EQ(wanted.stages.front().recompute, back.stages.front().recompute);
    EXPECT_EQ(ours.scenario.precision, theirs.scenario.precision);
    EXPECT_EQ(ours.scenario.optimizer.states, theirs.scenario.optimizer.states);
    EXPECT_EQ(ours.scenario.framework.elementwise, theirs.scenario.framework.elementwise);
  }
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

// A flavor's name stands for all of its sizes.
TEST(Export, TorchtitansFlavorsAreWholeModels) {
  const auto titan = [](const std::string& vocabulary) {
    return exported("torchtitan",
                    kCluster +
                        "workload: {config: {model_type: llama, num_hidden_layers: 6, hidden_size: 256, num_attention_heads: 16, "
                        "num_key_value_heads: 16, intermediate_size: 768, rope_theta: 500000, tie_word_embeddings: false, "
                        "rms_norm_eps: 1e-05, max_position_embeddings: 131072, vocab_size: " +
                        vocabulary + "}, sequence: 32}\nprecision: fp32\n" + kPlain + "parallel: {pipeline: 1, data: 8}\n");
  };
  EXPECT_THAT(titan("2048").text, HasSubstr("config.model_spec = model_registry(\"debugmodel\")\n"));
  EXPECT_THAT(titan("4096").text, HasSubstr("model_registry(\"panpipe\")\n"));
  EXPECT_THAT(titan("4096").cannot, Contains(HasSubstr("vocab_size=4096, rope_theta=500000")));
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
