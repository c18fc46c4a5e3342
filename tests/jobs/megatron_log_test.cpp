// Logs of Megatron-LM and its forks: which steps count, and the arguments that they print.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/logs.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MegatronLog, MedianOfTheSteadyState) {
  const TrainingLog log = log_of(megatron_line(1, 9000) + megatron_lines(2, 30));
  EXPECT_EQ(log.trainer, "megatron-core");
  EXPECT_EQ(log.run.measured.steps, 30);
  EXPECT_EQ(log.run.left_out.warm_up, 1);
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 0.101);
  EXPECT_DOUBLE_EQ(log.run.measured.p10_s, 0.1);
  EXPECT_DOUBLE_EQ(log.run.measured.p90_s, 0.102);
}

TEST(MegatronLog, StepsBesideOtherWorkAreLeftOut) {
  const TrainingLog log =
      log_of(megatron_line(1, 9000) + megatron_lines(2, 10) + "saving checkpoint at iteration      11 to /checkpoints\n" +
             megatron_line(12, 5000) + megatron_lines(13, 5) + megatron_line(18, 100, 1) + "Evaluating on 3200 samples\n" +
             " validation loss at iteration 18 | lm loss value: 2.5 |\n" + megatron_line(19, 7000) + megatron_lines(20, 5));
  EXPECT_EQ(log.run.left_out.checkpoint, 1);
  EXPECT_EQ(log.run.left_out.evaluation, 1);
  EXPECT_EQ(log.run.left_out.skipped, 1);
  EXPECT_EQ(log.run.measured.steps, 20);
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 0.101);
}

// A batch that grows: 10 steps of 32 samples, then 12 of 64, of which the first counts as warm-up.
TEST(MegatronLog, StepsOfAnotherBatchAreLeftOut) {
  std::string text;
  for (int i = 1; i <= 22; ++i)
    text += fmt::format("iteration {}/ 100 | elapsed time per iteration (ms): {} | global batch size: {:5} | x\n", i,
                        i <= 10 ? 50.0 : 100.0, i <= 10 ? 32 : 64);
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.run.samples, 64);
  EXPECT_EQ(log.run.left_out.other_batch, 10);
  EXPECT_EQ(log.run.measured.steps, 11);
  EXPECT_DOUBLE_EQ(log.run.measured.p10_s, 0.1);
}

// Where a trainer saves after each logged step, there is no other.
TEST(MegatronLog, OnlyDisturbedSteps) {
  std::string text;
  for (int i = 1; i <= 4; ++i) text += "saving checkpoint at iteration 1\n" + megatron_line(i, 100 * i);
  const TrainingLog log = log_of(text);
  EXPECT_TRUE(log.run.disturbed);
  EXPECT_EQ(log.run.measured.steps + log.run.left_out.warm_up, 4);
}

// As public logs of fp16 runs that stop early.
TEST(MegatronLog, OnlySkippedSteps) {
  const TrainingLog log = log_of(megatron_line(1, 900, 1) + megatron_line(2, 500, 1) + megatron_line(3, 510, 1));
  EXPECT_TRUE(log.run.skipping);
  EXPECT_EQ(log.run.left_out.skipped, 0);
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 0.505);
  const TrainingLog other = log_of(megatron_lines(25, 3) + megatron_line(1, 900, 1) + megatron_line(2, 500, 1));
  EXPECT_EQ(other.run_number, 1);  // whose steps are whole
}

TEST(MegatronLog, RanksCountOnce) {
  std::string text;
  for (int i = 1; i <= 20; ++i)
    for (const int rank : {i % 2, 1 - i % 2}) text += fmt::format("[default{}]:", rank) + megatron_line(i, rank == 1 ? 100 : 500);
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.run.left_out.other_ranks, 20);
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 0.1);  // as the rank that wrote first
  EXPECT_EQ(log.runs, 1);
}

TEST(MegatronLog, TwoRuns) {
  const std::string text = megatron_lines(1, 20) + "Traceback\n" + megatron_lines(11, 12);
  const TrainingLog last = log_of(text);
  EXPECT_EQ(last.runs, 2);
  EXPECT_EQ(last.run_number, 2);
  EXPECT_EQ(last.run.first_step, 11);
  EXPECT_EQ(last.run.left_out.other_runs, 20);
  EXPECT_EQ(log_of(text, 1).run.last_step, 20);
  EXPECT_THAT(log_fault(text, 3), HasSubstr("there is no run 3; the log has 2"));
}

TEST(MegatronLog, CutLinesAreCounted) {
  const TrainingLog log =
      log_of(megatron_lines(1, 20) + " iteration       21/ 100 | consumed samples:   100 | elapsed time per iteration (ms): 54");
  EXPECT_EQ(log.run.left_out.cut_lines, 1);
  EXPECT_EQ(log.run.measured.steps + log.run.left_out.warm_up, 20);
}

TEST(MegatronLog, OtherSpellings) {
  for (const char* line :
       {" iteration {0:8}/  100 | consumed samples: 9 | consumed tokens: 9 | elapsed time per iteration (s): 16.1 | TFLOPs: 1 "
        "|\n",
        "[2024-04-21 02:45:24][INFO][training:1251] -  iteration={0:8}/  317892 | consumed_tokens=    2097152 | "
        "elapsed_time_per_iteration_ms=16100.0 | TFLOPs=160.07 |\n"}) {
    std::string text;
    for (int i = 1; i < 9; ++i) text += fmt::format(fmt::runtime(line), i);
    const TrainingLog log = log_of(text);
    EXPECT_EQ(log.trainer, "megatron-deepspeed");
    EXPECT_DOUBLE_EQ(log.run.measured.median_s, 16.1);
  }
}

const std::string kPrintedArguments =
    "using world size: 16, data-parallel size: 2, tensor-model-parallel size: 4\n"
    "------------------------ arguments ------------------------\n"
    "  add_bias_linear ................................. False\n"
    "  attention_dropout ............................... 0.0\n"
    "  bf16 ............................................ True\n"
    "  bias_gelu_fusion ................................ False\n"
    "  exp_avg_dtype ................................... torch.float32\n"
    "  ffn_hidden_size ................................. 11008\n"
    "  global_batch_size ............................... 128\n"
    "  hidden_dropout .................................. 0.0\n"
    "  hidden_size ..................................... 4096\n"
    "  ict_head_size ................................... None\n"
    "  img_h ........................................... 224\n"
    "  micro_batch_size ................................ 2\n"
    "  normalization ................................... RMSNorm\n"
    "  num_attention_heads ............................. 32\n"
    "  num_layers ...................................... 32\n"
    "  num_query_groups ................................ 1\n"
    "  group_query_attention ........................... False\n"
    "  pipeline_model_parallel_size .................... 2\n"
    "  position_embedding_type ......................... rope\n"
    "  recompute_granularity ........................... None\n"
    "  seq_length ...................................... 4096\n"
    "  sequence_parallel ............................... True\n"
    "  swiglu .......................................... True\n"
    "  tensor_model_parallel_size ...................... 4\n"
    "  untie_embeddings_and_output_weights ............. True\n"
    "  use_distributed_optimizer ....................... True\n"
    "  world_size ...................................... 16\n"
    "-------------------- end of arguments ---------------------\n"
    " > padded vocab (size: 32000) with 256 dummy tokens (new size: 32256)\n";

TEST(MegatronLog, PrintedArgumentsAreTheJob) {
  const TrainingLog log = log_of(kPrintedArguments + megatron_lines(1, 20));
  EXPECT_EQ(log.run.job.gpus, 16);
  EXPECT_EQ(log.run.job.batch, 128);
  const ImportedJob job = import_stated_job(log, {});
  // parallel.data: 16 / (4 x 2)
  expect_values(job,
                "parallel.tensor: 4; parallel.pipeline: 2; parallel.data: 2; parallel.zero: 1; parallel.sequence_parallel: true; "
                "precision: bf16; batch.global: 128");
  EXPECT_THAT(value(job, "workload.config"), HasSubstr("vocab_size: 32256"));
  EXPECT_THAT(value(job, "workload.config"), Not(HasSubstr("num_key_value_heads: 1,")));
  EXPECT_TRUE(job.not_understood.empty());
  EXPECT_TRUE(job.not_modelled.empty());
}

// A collector's mark that is not known stands before each line alike.
TEST(MegatronLog, ArgumentsBehindAnyMark) {
  for (const std::string mark : {"train-worker-0 pytorch ", "2024-05-01 10:00:00 ", "> > "}) {
    std::string text;
    std::string_view rest = kPrintedArguments;
    for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1))
      text += mark + std::string(rest.substr(0, end)) + "\r\n";
    const ImportedJob job = import_stated_job(log_of(text + megatron_lines(1, 20)), {});
    EXPECT_EQ(value(job, "parallel.tensor"), "4") << mark;
    EXPECT_THAT(value(job, "workload.config"), HasSubstr("vocab_size: 32256"));
    EXPECT_TRUE(job.not_modelled.empty());
  }
}

TEST(MegatronLog, WordsOfMegatronDeepSpeed) {
  std::string text = kPrintedArguments;
  text.replace(text.find("RMSNorm"), 7, "rmsnorm");
  text.replace(text.find("  group_query_attention"), 0,
               "  num_experts ..................................... [1]\n  topk .... 1\n"
               "  num_key_value_heads ............................. 8\n");
  text.erase(text.find("  group_query_attention"), text.find("  pipeline_model") - text.find("  group_query_attention"));
  text.erase(text.find("  num_query_groups"), text.find("  num_experts") - text.find("  num_query_groups"));
  const std::string config = value(import_stated_job(log_of(text + megatron_lines(1, 20)), {}), "workload.config");
  EXPECT_THAT(config, HasSubstr("model_type: llama"));
  EXPECT_THAT(config, HasSubstr("num_key_value_heads: 8"));
}

TEST(MegatronLog, ArgumentsOfGptNeoX) {
  std::string text = "-------------------- arguments --------------------\n";
  for (const char* line : {"attention_config ................ ['flash', 'flash']updated",
                           "activation ...................... swiglu......................updated",
                           "global_num_gpus ................. 16..........................updated",
                           "hidden_size ..................... 4096........................updated",
                           "model_parallel_size ............. 2...........................updated",
                           "mlp_multiple_of ................. 256.........................updated",
                           "no_weight_tying ................. True........................updated",
                           "norm ............................ rmsnorm.....................updated",
                           "num_attention_heads ............. 32..........................updated",
                           "num_layers ...................... 32..........................updated",
                           "pipe_parallel_size .............. 2...........................updated",
                           "pos_emb ......................... rotary......................updated",
                           "precision ....................... bfloat16....................updated",
                           "seq_length ...................... 2048........................updated",
                           "train_batch_size ................ 64..........................updated",
                           "train_micro_batch_size_per_gpu .. 4...........................updated",
                           "zero_stage ...................... 1...........................updated",
                           "hidden_dropout .................. 0.0.........................default",
                           "attention_dropout ............... 0.0.........................default",
                           "intermediate_size ............... None........................default",
                           "num_gpus ........................ None........................default"})
    text += fmt::format("  {}\n", line);
  text +=
      "---------------- end of arguments ----------------\n > padded vocab (size: 50277) with 27 dummy tokens (new size: "
      "50304)\n";
  for (int i = 1; i <= 9; ++i)
    text += fmt::format(
        " samples/sec: 51.2 | iteration {:8}/ 50 | elapsed time per iteration (ms): 1250.0 | approx flops per GPU: 1TFLOPS |\n",
        i);
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.trainer, "gpt-neox");
  const ImportedJob job = import_stated_job(log, {});
  expect_values(job,
                "trainer: gpt-neox; parallel.tensor: 2; parallel.pipeline: 2; parallel.data: 4; parallel.zero: 1; batch.micro: "
                "4; precision: bf16");
  // Two thirds of 4 x 4096, rounded up to a multiple of 256.
  for (const char* part :
       {"intermediate_size: 11008", "vocab_size: 50304", "tie_word_embeddings: false", "num_key_value_heads: 32"})
    EXPECT_THAT(value(job, "workload.config"), HasSubstr(part));
}

TEST(MegatronLog, FaultsOfArgumentsHaveThePlaceInTheLog) {
  std::string text = kPrintedArguments;
  text.replace(text.find(". 32\n"), 4, ". 3x");
  const TrainingLog log = log_of(text + megatron_lines(1, 20));
  EXPECT_THAT(fault_of([&] { import_stated_job(log, {}); }), HasSubstr("train.log:16:1: --num_attention_heads is '3x'"));
}

TEST(MegatronLog, ArgumentsWithoutTheirEnd) {
  const TrainingLog log =
      log_of("------------------------ arguments ------------------------\n  num_layers ..... 24\n" + megatron_lines(1, 20));
  EXPECT_EQ(log.run.last_step, 20);
}

TEST(MegatronLog, MemoryIsTheLargestOfAllRanks) {
  const TrainingLog log = log_of(
      megatron_lines(1, 20) +
      "[Rank 1] (after 1 iterations) memory (MB) | allocated: 10.0 | max allocated: 2048.0 | reserved: 1.0 | max reserved: 1.0\n"
      "[Rank 0] (after 1 iterations) memory (MB) | allocated: 10.0 | max allocated: 1024.0 | reserved: 1.0 | max reserved: "
      "1.0\n");
  EXPECT_EQ(log.run.peak_kind, PeakKind::Allocated);
  EXPECT_DOUBLE_EQ(log.run.peak_bytes, 2048.0 * (1 << 20));
}

}  // namespace
}  // namespace panpipe::jobs
