// nanotron's and torchtitan's configurations as scenarios.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/input/source_text.hpp"
#include "costmodel/scenario/nanotron_cuts.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "jobs/torchtitan/flavors.hpp"
#include "jobs/trainer_jobs.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kExamples = "../scenarios/examples/jobs/";

const std::string kNanotron =
    "model:\n  dtype: bfloat16\n  make_vocab_size_divisible_by: 128\n  model_config: {is_llama_config: true, hidden_size: 512, "
    "intermediate_size: 1024, num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 4, max_position_embeddings: "
    "512, "
    "vocab_size: 1000, rope_scaling: {factor: 8}}\n"
    "tokens: {micro_batch_size: 2, batch_accumulation_per_replica: 4, sequence_length: 512}\n";

ImportedJob nanotron(const std::string& text, const JobOptions& options = {}) {
  return import_nanotron(text, "job.yaml", options);
}
ImportedJob titan(const std::string& text, const std::vector<std::string>& overrides = {}, JobOptions options = {}) {
  options.overrides = overrides;
  return import_torchtitan(text, "job.toml", options);
}
std::string titan_fault(const std::string& text, const std::vector<std::string>& overrides = {}, const JobOptions& options = {}) {
  return fault_of([&] { titan(text, overrides, options); });
}

TEST(NanotronImport, KeysOfAllSections) {
  const ImportedJob job = nanotron(kNanotron +
                                   "parallelism: {dp: 2, tp: 2, pp: 2, pp_engine: afab, tp_mode: reduce_scatter, "
                                   "tp_linear_async_communication: false, recompute_layer: true}\n"
                                   "optimizer: {accumulate_grad_in_fp32: false, zero_stage: 1, clip_grad: null}\n");
  EXPECT_EQ(value(job, "workload.config"),
            "{model_type: llama, num_hidden_layers: 8, hidden_size: 512, intermediate_size: 1024, num_attention_heads: 8, "
            "num_key_value_heads: 4, max_position_embeddings: 512, vocab_size: 1024, tie_word_embeddings: false}");
  EXPECT_THAT(job.assumptions, Contains("the vocabulary of 1000 tokens is padded to 1024, a multiple of 256."));  // 128 x 2
  expect_values(job,
                "parallel.data: 2; parallel.sequence_parallel: true; parallel.zero: 1; schedule: gpipe; recompute: full; "
                "batch.micro: 2; batch.microbatches: 4; precision: bf16-pure; framework: {overlap_tensor_collectives: false}");
  EXPECT_THAT(job.without_effect, Contains("model.model_config.rope_scaling.factor: 8"));
  EXPECT_THAT(job.not_understood, IsEmpty());
}

// The rule of nanotron's build_model by hand: Llama 3 8B has 32 layers of 243 million weights (4 x 4096 x 4096 + 3 x 14336 x
// 4096), and a head of 525 million, 2.16 layers; a stage ends with the layer that passes its share of 34.16.
TEST(NanotronImport, StagesAreThoseThatNanotronMakes) {
  const NanotronSizes sizes = {32, 4096, 32, 14336, 128256};
  EXPECT_THAT(nanotron_layers(sizes, 1), ElementsAre(32));
  EXPECT_THAT(nanotron_layers(sizes, 2), ElementsAre(18, 14));          // 17.08
  EXPECT_THAT(nanotron_layers(sizes, 4), ElementsAre(9, 9, 8, 6));      // 8.54, 17.08, 25.62
  EXPECT_THAT(nanotron_layers({2, 64, 4, 128, 128256}, 2), IsEmpty());  // the head is more than half: it ends the first stage
  EXPECT_THAT(nanotron_layers({4, 4096, 32, 14336, 32000}, 8), IsEmpty());
  const ImportedJob job = nanotron(read_text_file(kExamples + "nanotron-llama-8b.yaml"));
  EXPECT_EQ(value(job, "partition"), "[h.18.attention]");
  EXPECT_THAT(nanotron(kNanotron + "parallelism: {dp: 1, tp: 1, pp: 16}\n").assumptions, Contains(HasSubstr("balanced times")));
}

// What stands for a missing key: Config of nanotron/config/config.py and MoEConfig of models_config.py.
TEST(NanotronImport, MissingKeysAreNanotronsDefaults) {
  const std::string degrees = "parallelism: {dp: 8, tp: 1, pp: 1}\noptimizer: {accumulate_grad_in_fp32: true}\n";
  std::string text = kNanotron + degrees;
  text.erase(text.find("  dtype: bfloat16\n"), 18);
  EXPECT_EQ(value(nanotron(text), "precision"), "bf16");
  text.replace(text.find("rope_scaling"), 0,
               "moe_config: {num_experts: 4, top_k: 2, moe_intermediate_size: 256, layers: [1, 3]}, ");
  EXPECT_THAT(value(nanotron(text), "workload.config"),
              HasSubstr("shared_expert_intermediate_size: 0, mlp_only_layers: [0, 2, 4, 5, 6, 7]}"));
  text.replace(text.find("layers: [1, 3]"), 14, "enable_shared_expert: true");
  EXPECT_THAT(value(nanotron(text), "workload.config"), HasSubstr("shared_expert_intermediate_size: 5632}"));
  EXPECT_THAT(nanotron(text).not_understood, IsEmpty());
}

TEST(TorchtitanImport, AFileAndWhatItsCommandLineOverrides) {
  const std::string text = read_text_file(kExamples + "torchtitan-llama3-8b.toml");
  const ImportedJob job = titan(text, {}, {.gpus = 64});
  // parallel.data: 64 / tensor 2
  expect_values(job,
                "parallel.data: 32; parallel.zero: 3; parallel.sequence_parallel: true; batch.micro: 2; batch.global: 256; "
                "recompute: {operators: [norms, elementwise, second-products]}; framework: {gradient_clipping: foreach}");
  EXPECT_THAT(job.not_understood, IsEmpty());
  const ImportedJob other = titan(text,
                                  {"--parallelism.pipeline_parallel_degree", "4", "--training.local-batch-size=8",
                                   "--compile.no-enable", "--parallelism.data_parallel_replicate_degree", "2"},
                                  {.gpus = 64});
  // parallel.zero: a pipeline keeps parameters whole
  expect_values(other, "parallel.data: 8; parallel.shard: 4; parallel.zero: 2; batch.micro: 1");
  EXPECT_THAT(value(other, "framework"), HasSubstr("elementwise: eager, normalization: modules"));
  // 32 layers, embedding and head as one each: 34 = 9 + 9 + 8 + 8; the first stage has 8 layers, the last 7.
  EXPECT_EQ(value(other, "partition"), "[h.8.attention, h.17.attention, h.25.attention]");
}

// Releases 0.1 to 0.3 clip to a norm of 1 unless the file states another norm.
TEST(TorchtitanImport, GradientsAreClippedByDefault) {
  const auto framework = [](const std::string& norm) {
    return value(titan("[model]\nflavor = '8B'\n[training]\n" + norm), "framework");
  };
  EXPECT_THAT(framework("seq_len = 512\n"), HasSubstr("gradient_clipping: foreach"));
  EXPECT_THAT(framework("max_norm = 0.0\n"), Not(HasSubstr("gradient_clipping")));
}

TEST(TorchtitanImport, SchedulesAndStages) {
  const std::string text = "[model]\nflavor = '8B'\n[parallelism]\npipeline_parallel_degree = 2\n";
  const ImportedJob job =
      titan(text + "pipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_layers_per_stage = 9\n");
  // parallel.virtual_stages: (32 + 2) / 9 = 4 stages
  expect_values(job, "schedule: interleaved-1f1b; parallel.virtual_stages: 2");
  EXPECT_EQ(value(titan(text + "pipeline_parallel_schedule = 'ZBVZeroBubble'\n"), "schedule"), "zb-v");
}

// Each flavor's parameters are those that its name states, within the rounding of names.
TEST(TorchtitanImport, EveryFlavorLoads) {
  for (const TorchtitanFlavor& flavor : torchtitan_flavors()) {
    SCOPED_TRACE(flavor.model + " " + flavor.flavor);
    const ImportedJob job = titan("[model]\nname = '" + flavor.model + "'\nflavor = '" + flavor.flavor +
                                  "'\n[training]\nseq_len = 512\nlocal_batch_size = 1\n[activation_checkpoint]\nmode = 'none'\n");
    const Scenario scenario = parse_scenario(scenario_text(job), "job.yaml", ".");
    const Workload workload = make_workload(scenario);
    const double billions = static_cast<double>(workload.parameters) / 1e9;
    const double named = std::atof(flavor.flavor.c_str());
    if (named > 0) {
      EXPECT_NEAR(billions / named, 1.0, 0.3);
    }
  }
}

TEST(TorchtitanImport, AKeyThatIsNoneIsReported) {
  const ImportedJob job = titan("[model]\nflavor = '8B'\n[compile]\nenabel = true\n[parallelism]\nfsdp_policy = 1\n",
                                {"--parallelism.tensor_parallel_degre", "2", "--training.tensor_parallel_degree", "2"});
  EXPECT_THAT(job.not_understood,
              ElementsAre("compile.enabel: true (did you mean 'compile.enable'?)", "parallelism.fsdp_policy: 1",
                          "parallelism.tensor_parallel_degre: 2 (did you mean 'parallelism.tensor_parallel_degree'?)",
                          "training.tensor_parallel_degree: 2 (did you mean 'parallelism.tensor_parallel_degree'?)"));
  const ImportedJob flat = titan("[model]\nflavor = '8B'\n[parallelism]\npipeline_parallel_schedule = 'GPipe'\n");
  EXPECT_THAT(flat.without_effect, Contains("parallelism.pipeline_parallel_schedule: GPipe"));
}

// FSDP casts to bf16, autocast does so for replicas alone; with tensor or pipeline parallelism in addition, nothing does.
TEST(TorchtitanImport, MixedPrecisionNeedsFsdp) {
  const auto precision = [](const std::string& keys, int gpus) {
    return value(titan("[model]\nflavor = '8B'\n[parallelism]\n" + keys, {}, {.gpus = gpus}), "precision");
  };
  EXPECT_EQ(precision("tensor_parallel_degree = 8\n", 8), "fp32");
  EXPECT_EQ(precision("pipeline_parallel_degree = 4\ndata_parallel_replicate_degree = 2\n", 8), "fp32");
  EXPECT_EQ(precision("tensor_parallel_degree = 4\n", 8), "bf16");
  EXPECT_EQ(precision("tensor_parallel_degree = 4\ncontext_parallel_degree = 2\n", 8), "bf16");
  EXPECT_EQ(precision("data_parallel_replicate_degree = 8\n", 8), "bf16");
  EXPECT_THAT(titan("[model]\nflavor = '8B'\n[parallelism]\ntensor_parallel_degree = 8\n", {}, {.gpus = 8}).assumptions,
              Contains("fp32: before 0.3 torchtitan mixes precisions beside tensor or pipeline parallelism under FSDP or context "
                       "parallelism alone."));
}

// Release 0.3, whose configurations are Python, always runs FSDP: over one rank it casts alone.
TEST(TorchtitanImport, SinceThirdReleasePrecisionsAreMixedEverywhere) {
  const std::string python =
      "from torchtitan.models.llama3.config_registry import llama3_8b\n\n\ndef job():\n    config = llama3_8b()\n"
      "    config.parallelism.tensor_parallel_degree = 8\n    return config\n";
  EXPECT_EQ(value(titan(python, {}, {.gpus = 8}), "precision"), "bf16");
}

// --model takes the model's place, not the length of its samples.
TEST(TorchtitanImport, AStatedModelKeepsTheJobsSequence) {
  const JobOptions stated = {.model = "config.json"};
  const auto sequence = [](const ImportedJob& job) { return value(job, "workload.sequence"); };
  EXPECT_EQ(sequence(titan("[training]\nseq_len = 4096\n", {}, stated)), "4096");
  EXPECT_EQ(sequence(titan("[training]\nsteps = 1\n", {}, stated)), "2048");
  EXPECT_EQ(sequence(titan("[training]\nseq_len = 4096\n", {}, {.model = "config.json", .sequence = 512})), "512");
  const std::string degrees = "parallelism: {dp: 8, tp: 1, pp: 1}\n";
  EXPECT_EQ(sequence(nanotron(kNanotron + degrees, stated)), "512");
  EXPECT_EQ(sequence(nanotron(kNanotron + degrees, {.model = "config.json", .sequence = 128})), "128");
}

TEST(TorchtitanImport, FilesThatAreNone) {
  EXPECT_EQ(titan_fault(""), "job.toml: error: the file is empty");
  EXPECT_EQ(titan_fault(" \n\n"), "job.toml: error: the file is empty");
  EXPECT_THAT(titan_fault(std::string("\x7f"
                                      "ELF\nimport x\n")),
              HasSubstr("this is a binary file, not text"));
  const std::string name(300, 'a');
  EXPECT_THAT(titan_fault("[model]\n[" + name + "]\nb = 1\n"),
              HasSubstr("job.toml:2:2: error: a key of 300 bytes with the tables that it lies in, more than 256"));
  const std::string half(200, 'a');
  EXPECT_THAT(titan_fault("[" + half + "]\n[" + half + "." + half + "]\nb = 1\n"),
              HasSubstr("a key of 401 bytes with the tables"));
}

// As release 0.3 takes them: what the shipped configuration states holds, and over it what the file assigns.
TEST(TorchtitanImport, AConfigurationInPython) {
  const std::string job = scenario_text(import_torchtitan(R"(# mine
"""Words with "quotes" # and a mark"""
from torchtitan.models.llama3.config_registry import (
    llama3_70b,
)
import os

def mine() -> "Trainer.Config":
    config = llama3_70b()  # 8 x 8192
    config.parallelism.pipeline_parallel_degree = 2; config.training.local_batch_size = 1_6
    config.parallelism.module_fqns_per_model_part = [
        ["tok_embeddings", 'layers.0'],  # the first
        ["layers.1", "norm", "lm_head"],
    ]
    config.activation_checkpoint = None
    config.optimizer.param_groups[0].optimizer_kwargs["lr"] = 1e-4
    config.parallelism.enable_sequence_parallel = False
    return config
)",
                                                          "mine.py", {}));
  EXPECT_THAT(job, HasSubstr("  tensor: 8  # parallelism.tensor_parallel_degree\n"));
  EXPECT_THAT(job, HasSubstr("  pipeline: 2  # "));
  EXPECT_THAT(job, HasSubstr("partition: [h.1.attention]"));
  EXPECT_THAT(job, HasSubstr("  sequence: 8192  # training.seq_len\n"));
  EXPECT_THAT(job, HasSubstr("  microbatches: 16"));
  EXPECT_THAT(job, Not(HasSubstr("recompute")));
  EXPECT_THAT(job, Not(HasSubstr("sequence_parallel")));
  EXPECT_THAT(job, Not(HasSubstr("NOT UNDERSTOOD")));
}

// What is wrong with a file stands in tests/input_errors.
TEST(TorchtitanImport, OptionsThatAreNone) {
  EXPECT_THAT(titan_fault("[job]", {"--gpus", "8"}),
              HasSubstr("'--gpus' is no option of torchtitan, whose options are SECTION.KEY"));
  EXPECT_THAT(titan_fault("[job]", {"8"}), HasSubstr("'8' is no option of torchtitan"));
  const std::string expert = "[parallelism]\nexpert_parallel_degree = 4\n[model]\nname = 'qwen3'\nflavor = '30B-A3B'";
  EXPECT_EQ(value(titan(expert, {}, {.gpus = 8}), "parallel.expert"), "4");
}

}  // namespace
}  // namespace panpipe::jobs
