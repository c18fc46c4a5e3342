// Plans as configurations of nanotron, Accelerate, Hugging Face's Trainer, DeepSpeed and torchtitan.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "jobs/deepspeed/import.hpp"
#include "jobs/torch/schedules.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/jobs/exports.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

}  // namespace
}  // namespace panpipe::jobs
