// Launch scripts of Megatron-LM and its forks as scenarios: values, what is not known, several commands, other forms.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/job_json.hpp"
#include "jobs/megatron/import.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kArguments =
    "--hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 50257 --micro-batch-size 4 --global-batch-size "
    "64 ";

ImportedJob job(const std::string& text, const JobOptions& options = {}) { return import_megatron(text, "job.sh", options); }

std::string fault(const std::string& text, const JobOptions& options = {}) {
  return fault_of([&] { job(text, options); });
}

TEST(MegatronScript, ValuesOfVariables) {
  const ImportedJob found =
      job("#SBATCH --nodes=2\nTP=4\nexport RUN=\"torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES\"\nexport ARGS=\"" +
          kArguments + "\"\nsrun bash -c \"$RUN x.py --num-layers 24 --tensor-model-parallel-size $TP $ARGS\"");
  expect_values(found, "parallel.tensor: 4; parallel.data: 4");
  EXPECT_THAT(found.not_understood, IsEmpty());
}

TEST(MegatronScript, AllThatIsNotKnownIsNamedAtOnce) {
  const std::string script = "L=$LAYERS\ntorchrun --nnodes $N x.py --num-layers $L \\\n --micro-batch-size $2 --save $OUT/x " +
                             kArguments + " --global-batch-size $GBS --tensor-model-parallel-size ${TP:-1}";
  EXPECT_EQ(fault(script),
            "error: job.sh:2: nothing is run here, so these are not known: N (line 2), LAYERS (line 1), GBS (line 3)\n"
            "  help: state them: --define N=... --define LAYERS=... --define GBS=...");
  JobOptions options{.gpus = 8};
  EXPECT_THAT(fault(script, options), Not(HasSubstr("N (line 2)")));
  options.keeps_unknown = true;
  const ImportedJob open = job(script, options);
  ASSERT_EQ(open.unknown.size(), 2U);
  EXPECT_THAT(to_json(open), HasSubstr("{\"name\": \"LAYERS\", \"line\": 1, \"file\": \"job.sh\"}"));
  options.script.defines = {{"LAYERS", "24"}, {"GBS", "128"}};
  EXPECT_EQ(value(job(script, options), "batch.global"), "128");
  EXPECT_THAT(job(script, options).unknown, IsEmpty());
}

// A word of unknown origin may hold arguments; where it takes the place of a value that does not matter, nobody asks.
TEST(MegatronScript, WordsThatMayHoldArguments) {
  const std::string start = "torchrun x.py --num-layers 24 " + kArguments;
  EXPECT_THAT(fault(start + "--bf16 $MORE"), HasSubstr("MORE (line 1)"));
  EXPECT_THAT(fault(start + "--log-interval 10 $MORE"), HasSubstr("MORE (line 1)"));
  EXPECT_EQ(fault(start + "--data-path $A 0.5 $B --save $C --load \"$D\""), "");
  EXPECT_EQ(fault("if [ $X = 1 ]; then O=\"--save /x --seed 3\"; fi\n" + start + "--bf16 $O"), "");
  EXPECT_THAT(fault("if [ $X = 1 ]; then O=\"--swiglu\"; fi\n" + start + "--bf16 $O"), HasSubstr("X (line 1)"));
  EXPECT_EQ(fault("M=()\n" + start + "${M[@]} $M"), "");
}

TEST(MegatronScript, SeveralCommands) {
  const std::string loop =
      "for T in 1 2 4; do\n torchrun x.py --num-layers 24 " + kArguments + " --tensor-model-parallel-size $T --save $T\ndone";
  EXPECT_EQ(fault(loop, {.gpus = 8}),
            "error: job.sh: 3 commands train with different arguments\n"
            "  1: line 2\n  2: line 2: parallel.tensor 2, parallel.data 4\n  3: line 2: parallel.tensor 4, parallel.data 2\n"
            "  help: choose one: --launch N, or --define NAME=VALUE where a loop or a condition makes them");
  JobOptions options{.gpus = 8};
  options.launch = 2;
  EXPECT_EQ(value(job(loop, options), "parallel.tensor"), "2");
  options.launch = 4;
  EXPECT_EQ(fault(loop, options), "error: --launch 4: job.sh has 3 commands that train differently");
  options.launch = {};
  options.script.defines = {{"T", "4"}};
  EXPECT_EQ(value(job(loop, options), "parallel.tensor"), "4");
  // They differ by what does not matter.
  EXPECT_EQ(fault("for S in 1 2; do torchrun x.py --num-layers 24 --seed $S " + kArguments + "; done"), "");
  EXPECT_THAT(fault("if [ $M = 1 ]; then torchrun x.py --num-layers 24 " + kArguments + "; else torchrun x.py --num-layers 12 " +
                    kArguments + "; fi"),
              HasSubstr("M (line 1)"));
}

// An option begins a line of its own where a variable holds a line end; the command before it trains.
TEST(MegatronScript, ALineThatBeginsWithAnOption) {
  EXPECT_EQ(value(job("A=\"" + kArguments + "\\ \n --bf16\"\nbash -c \"python x.py --num-layers 24 $A\""), "precision"), "fp32");
}

// Of commands that train alike, the one that runs where no argument is given.
TEST(MegatronScript, TheCommandWithoutArguments) {
  const ImportedJob found = job("if [ \"$1\" = debug ]; then\n debugpy x.py --num-layers 24 " + kArguments +
                                "\nelse\n torchrun x.py --num-layers 24 " + kArguments + "\nfi");
  EXPECT_EQ(found.launch.front().text, "torchrun");
}

TEST(MegatronScript, WhatAnOptionStates) {
  const std::string start = "python x.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 ";
  EXPECT_EQ(fault(start + "--micro-batch-size 2"),
            "error: job.sh: --seq-length is missing\n  help: --sequence N states the tokens of a sample");
  JobOptions options;
  options.sequence = 512, options.micro = 4;
  EXPECT_EQ(value(job(start, options), "workload.sequence"), "512");
  EXPECT_EQ(value(job(start + "--seq-length 2048 --micro-batch-size 1", options), "batch.micro"), "4");
  EXPECT_EQ(value(job(start + "--seq-length 2048 --batch-size 3"), "batch.micro"), "3");
  const ImportedJob two = job(start + "--encoder-seq-length 512 --decoder-seq-length 128 --micro-batch-size 1");
  EXPECT_EQ(value(two, "workload.sequence"), "512");
  EXPECT_THAT(two.not_modelled, Contains(HasSubstr("--decoder-seq-length 128")));
}

// One node is what a template states; where the model needs more, its owner states them elsewhere.
TEST(MegatronScript, ATemplateForOneNode) {
  const auto gpus = [](const std::string& launcher, const std::string& degrees) {
    return value(job("torchrun " + launcher + " x.py --num-layers 24 " + kArguments + degrees), "parallel.data");
  };
  const std::string deep = "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 6";
  EXPECT_EQ(gpus("--nproc_per_node 8 --nnodes 1", deep), "1");
  EXPECT_EQ(gpus("--nproc_per_node 8", "--num-experts 8 --expert-model-parallel-size 8 --pipeline-model-parallel-size 2"), "8");
  EXPECT_EQ(gpus("", "--num-experts 8 --expert-model-parallel-size 8 --pipeline-model-parallel-size 2"), "8");
  EXPECT_THAT(fault("torchrun --nproc_per_node 8 --nnodes 2 x.py --num-layers 24 " + kArguments + deep),
              HasSubstr("16 GPUs (--nnodes x --nproc_per_node) are no multiple of tensor 4 x pipeline 6"));
}

TEST(MegatronScript, TheOrderOfTheRanks) {
  const std::string start = "torchrun --nproc_per_node 8 x.py --num-layers 24 " + kArguments + "--tensor-model-parallel-size 2 ";
  EXPECT_EQ(value(job(start + "--pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping"), "placement"),
            "[0, 1, 4, 5, 2, 3, 6, 7]");
  for (const char* one : {"--pipeline-model-parallel-size 4", "--pipeline-model-parallel-size 1"})
    EXPECT_EQ(value(job(start + one + " --use-tp-pp-dp-mapping"), "placement"), "absent");
}

TEST(MegatronScript, TheConfigurationOfDeepSpeedThatItWrites) {
  const std::string script =
      "ZERO=2\nF=./ds.$JOB.json\ncat <<EOT > $F\n{\"zero_optimization\": {\"stage\": $ZERO}, \"bf16\": {\"enabled\": "
      "true}}\nEOT\n"
      "deepspeed x.py --deepspeed --deepspeed_config $F --zero-stage 1 --num-layers 24 " +
      kArguments;
  EXPECT_EQ(value(job(script), "parallel.zero"), "2");
  EXPECT_EQ(value(job(script), "precision"), "bf16");
  EXPECT_EQ(value(job("deepspeed x.py --deepspeed --zero-stage 1 --num-layers 24 " + kArguments), "parallel.zero"), "1");
  const ImportedJob sequence =
      job("deepspeed x.py --deepspeed --ds-sequence-parallel-size 4 --num-layers 24 " + kArguments, {.gpus = 8});
  expect_values(sequence, "parallel.context: 4; parallel.context_exchange: ulysses");
}

TEST(MegatronScript, PositionsAndVocabulariesOfTheForks) {
  const std::string start = "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 1 ";
  const auto config = [&](const std::string& more) { return value(job(start + more), "workload.config"); };
  EXPECT_EQ(config("--swiglu --position-embedding-type rotary --vocab-size 32000"),
            config("--swiglu --position-embedding-type rope --vocab-size 32000"));
  EXPECT_EQ(config("--position-embedding-type absolute"), config(""));
  EXPECT_THAT(config("--tokenizer-type Llama2Tokenizer"), HasSubstr("vocab_size: 32000"));
  EXPECT_THAT(job(start + "--tokenizer-type Llama2Tokenizer").assumptions,
              Contains("a vocabulary of 32000 tokens (--tokenizer-type Llama2Tokenizer)."));
  EXPECT_THAT(config("--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B"),
              HasSubstr("vocab_size: 128256"));
  EXPECT_THAT(config("--patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size 293"), HasSubstr("vocab_size: 151936"));
  EXPECT_THAT(config("--tokenizer-type GPT2BPETokenizer"), HasSubstr("vocab_size: 50304"));
}

TEST(MegatronScript, ArgumentsInYaml) {
  const ImportedJob found =
      job("ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n  --num-attention-heads: 8\n"
          "  --seq-length: 1024\n  --micro-batch-size: 4\n  --global-batch-size: 32\n  --bf16: true\n"
          "  --swiglu: false\n  --data-path: ${DATA}/x\nTEST_TYPE: regular\n");
  EXPECT_EQ(value(found, "precision"), "bf16");
  EXPECT_THAT(value(found, "workload.config"), HasSubstr("model_type: gpt2"));
  ASSERT_GT(found.launch.size(), 1U);
  EXPECT_EQ(found.launch[1].place()->line, 4);
  EXPECT_THAT(fault("MODEL_ARGS:\n  --num-layers: ${L}\n"), HasSubstr("L (line 2)"));
}

// Before its first assignment a variable is the environment's.
TEST(MegatronScript, AVariableThatKeepsItsValueIsNotKnown) {
  EXPECT_THAT(fault("L=$L\nexport H=${H}\ntorchrun pretrain_gpt.py --num-layers $L --hidden-size $H\n"),
              testing::AllOf(HasSubstr("L (line 1)"), HasSubstr("H (line 2)")));
}

TEST(MegatronScript, ArgumentsThatARunPrints) {
  const std::string log =
      "using world size: 8\n------------------------ arguments ------------------------\n"
      "  add_bias_linear ................................. False\n0:   bf16 ............................................ True\n"
      "  fp16 ............................................ False\n  global_batch_size ............................... 64\n"
      "  hidden_size ..................................... 1024\n  micro_batch_size ................................ 2\n"
      "  num_attention_heads ............................. 16\n  num_layers ...................................... 8\n"
      "  padded_vocab_size ............................... 50304\n  recompute_modules ............................... "
      "['core_attn', 'mlp']\n"
      "  seq_length ...................................... 1024\n  swiglu .......................................... True\n"
      "  world_size ...................................... 8\n-------------------- end of arguments ---------------------\n"
      "  num_layers ...................................... 99\n";
  const ImportedJob found = job(log);
  expect_values(found, "parallel.data: 8; precision: bf16");
  EXPECT_THAT(value(found, "workload.config"), HasSubstr("num_hidden_layers: 8"));
  EXPECT_THAT(value(found, "workload.config"), HasSubstr("mlp_bias: false"));
}

TEST(MegatronScript, ArgumentsThatNoCommandTakes) {
  const ImportedJob found = job("LAYERS=8\nMODEL_ARGS=\"--num-layers $LAYERS " + kArguments + "\"\nOTHER=(--bf16)\n");
  EXPECT_EQ(value(found, "precision"), "bf16");
  EXPECT_THAT(value(found, "workload.config"), HasSubstr("num_hidden_layers: 8"));
}

}  // namespace
}  // namespace panpipe::jobs
