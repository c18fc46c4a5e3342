// Training logs: lines, formats of each trainer, what is left out, hostile input.
#include "jobs/log/read_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "jobs/log/log_fields.hpp"
#include "tests/jobs/job_values.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Gives the text in pieces, as a pipe does.
LogLines::Source pieces_of(std::string text, std::size_t most = 1 << 20) {
  return [text = std::move(text), most, at = std::size_t{0}](char* buffer, std::size_t size) mutable {
    const std::size_t count = std::min({size, most, text.size() - at});
    std::memcpy(buffer, text.data() + at, count);
    at += count;
    return count;
  };
}
TrainingLog log_of(const std::string& text, int run = 0) { return read_training_log(pieces_of(text), "train.log", run); }
std::string log_fault(const std::string& text, int run = 0) {
  return fault_of([&] { log_of(text, run); });
}

std::string megatron_line(int number, double milliseconds, int skipped = 0) {
  return fmt::format(
      " [2024-04-06 02:59:{:02}] iteration {:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
      "throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.600000E-06 | global batch size:   128 | lm loss: 1.825991E+00 "
      "| "
      "loss scale: 1.0 | grad norm: 1.426 | number of skipped iterations: {:3} | number of nan iterations:   0 |\n",
      number % 60, number, 128 * number, milliseconds, skipped);
}
// Steps from `first` on, of 100 ms, 101 ms, 102 ms and again.
std::string megatron_lines(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += megatron_line(first + i, 100 + i % 3);
  return text;
}

std::vector<std::string> lines_of(const std::string& text, std::size_t most) {
  LogLines lines(pieces_of(text, most));
  std::vector<std::string> all;
  for (LogLine line; lines.next(line);) all.push_back(fmt::format("{}:{}:{}", line.number, line.rank, line.text));
  return all;
}

// 20 steps: one of warm-up, 19 count, in floor(19 / 5) = 3 parts, too few; of 61 steps 60 count in 12 parts of five, each 100,
// 101, 102 ms and again: medians are 101 ms, or 102 or 100 where the part begins so. The line states that there will be 100.
TEST(TrainingLog, PartsOfTheRunAndItsLength) {
  EXPECT_TRUE(log_of(megatron_lines(1, 20)).run.measured.levels_s.empty());
  const LoggedRun run = log_of(megatron_lines(1, 61)).run;
  ASSERT_EQ(run.measured.levels_s.size(), 12U);
  for (const double level : run.measured.levels_s) EXPECT_NEAR(level, 0.101, 0.001 + 1e-9);
  EXPECT_EQ(run.planned_steps, 100);
  EXPECT_NEAR(run.mean_s, 0.101, 1e-9);
}

// A step with an evaluation counts for the mean: (19 x 0.1 + 2) / 20 = 0.195 s.
TEST(TrainingLog, TheMeanHasWhatTheMedianLeavesOut) {
  std::string text;
  for (int i = 1; i <= 20; ++i) text += megatron_line(i, 100);
  text += " Evaluating iter 1/10\n" + megatron_line(21, 2000);
  const LoggedRun run = log_of(text).run;
  EXPECT_NEAR(run.measured.median_s, 0.1, 1e-9);
  EXPECT_NEAR(run.mean_s, 0.195, 1e-9);
}

TEST(LogLines, MarksColoursAndBars) {
  const std::string text =
      "[rank3]: a\n12: b\nworker-1: \x1b[31mred\x1b[0m and \x1b]0;title\x07plain\r\n 5%|#| 1/9\r10%|#| 2/9\nstep: 10\n[titan] x: "
      "y";
  for (const std::size_t most : {1UL, 7UL, 1UL << 20})
    EXPECT_THAT(lines_of(text, most), ElementsAre("1:rank3: a", "2:12: b", "3:worker-1: red and plain", "3::", "4:: 5%|#| 1/9",
                                                  "4::10%|#| 2/9", "5::step: 10", "6::[titan] x: y"));
}

// What collectors of logs write in front of a line is no part of it.
TEST(LogLines, MarksOfCollectors) {
  const std::pair<std::string, std::string> marks[] = {
      {"> ", ""},
      {"node-0: [rank3]:", "node-0: [rank3"},
      {"(RayTrainWorker pid=75298, ip=10.0.0.1) ", "RayTrainWorker pid=75298, ip=10.0.0.1"},
      {"trainer-1  | ", "trainer-1"},
      {"2024-05-01T10:00:00.123456789Z ", ""},
      {"2024-05-01T10:00:00+02:00 7: ", "7"}};
  for (const auto& [mark, rank] : marks) {
    const std::string line = mark + "iteration 1 | a: 2";
    const LogLine split = split_marks(line);
    EXPECT_THAT(std::string(split.text), ::testing::EndsWith("iteration 1 | a: 2"));
    EXPECT_LE(split.text.size(), 1 + std::strlen("iteration 1 | a: 2")) << mark;
    EXPECT_EQ(split.rank, rank) << mark;
  }
  for (const std::string line : {"time (ms) | forward: 3", "iteration 4 | a", "(min, max) time: 1", "a: b", "step: 10 loss: 1"})
    EXPECT_EQ(split_marks(line).text, line);
  EXPECT_EQ(split_marks("2024-05-01T10:00:00.250Z x").stamp, "2024-05-01T10:00:00.250Z");
  EXPECT_NEAR(*stamp_of(split_marks("2024-05-01T10:00:00.250Z x")) - *stamp_of("2024-05-01 10:00:00,000"), 0.25, 1e-6);
}

TEST(LogLines, TextInsideJson) {
  const std::string text =
      "{\"log\":\"\\u001b[31mstep: 1\\u001b[0m\\n\",\"stream\":\"stdout\"}\n      \" 5%|#| 1/9\\r10%|#| 2/9\\n\",\n"
      "   \"train_batch_size\": 8,\n  \"float8\",\n";
  EXPECT_THAT(lines_of(text, 1 << 20),
              ElementsAre("1::step: 1", "2:: 5%|#| 1/9", "2::10%|#| 2/9", "3::   \"train_batch_size\": 8,", "4::  \"float8\","));
}

TEST(LogLines, LongLinesAreCut) {
  const std::string text = "first\n" + std::string(5 << 20, 'x') + "\nlast\n";
  LogLines lines(pieces_of(text));
  LogLine line;
  ASSERT_TRUE(lines.next(line));
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line.text.size(), LogLines::kLongestLine);
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line.text, "last");
  EXPECT_EQ(line.number, 3);
  EXPECT_FALSE(lines.next(line));
  EXPECT_EQ(lines.cut(), 1);
}

TEST(LogFields, NumbersAndStamps) {
  EXPECT_EQ(number_after("tps: 7,555  mfu", "tps:"), 7555);
  EXPECT_EQ(number_after("time (ms): 54", "(ms):"), std::nullopt);  // its digits may be cut off
  EXPECT_EQ(number_after("time (ms): 54", "(ms):", true), 54);
  EXPECT_EQ(number_after("lr: 8.6E-06 |", "lr:"), 8.6e-6);
  EXPECT_EQ(number_after("n: nan |", "n:"), std::nullopt);
  EXPECT_EQ(short_number_after("elapsed: 11.5K |", "elapsed:"), 11500);
  EXPECT_EQ(short_number_after("elapsed: 673 |", "elapsed:"), 673);
  EXPECT_NEAR(*stamp_of("[2024-03-01 00:00:00,250] x") - *stamp_of("2024-02-29T23:59:59.750 y"), 0.5, 1e-6);  // a leap day
  EXPECT_EQ(stamp_of("[2024-03-01 00:00:00] no milliseconds"), std::nullopt);
}

TEST(StepTimes, QuantilesWarmUpAndDrift) {
  StepTimes times;
  for (const double seconds : {9.0, 2.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.0, 1.1, 1.2, 1.3, 1.4}) times.add(seconds);
  const SteadyState state = times.steady_state();
  EXPECT_EQ(state.warm_up, 2);  // the first, and the one that takes more than 5 % longer than the median
  EXPECT_EQ(state.steps, 10);
  EXPECT_DOUBLE_EQ(state.median_s, 1.2);
  EXPECT_DOUBLE_EQ(state.p10_s, 1.0);
  EXPECT_DOUBLE_EQ(state.p90_s, 1.4);
  EXPECT_NEAR(*state.drift, 1.3 / 1.1 - 1, 1e-12);
  StepTimes one;
  one.add(3);
  EXPECT_EQ(one.steady_state().steps, 1);
}

// A million steps with a slow one in every eight: the share is kept, whatever the period.
TEST(StepTimes, ManySteps) {
  StepTimes times;
  for (int i = 0; i < 1'000'000; ++i) times.add(i % 8 == 7 ? 2.0 : 1.0 + 1e-9 * i);
  const SteadyState state = times.steady_state();
  EXPECT_EQ(state.steps + state.warm_up, 1'000'000);
  EXPECT_NEAR(state.median_s, 1.0 + 1e-9 * 571'428, 2e-5);  // the 4/7 quantile of the others
  EXPECT_DOUBLE_EQ(state.p90_s, 2.0);
}

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
  EXPECT_EQ(value(job, "parallel.tensor"), "4");
  EXPECT_EQ(value(job, "parallel.pipeline"), "2");
  EXPECT_EQ(value(job, "parallel.data"), "2");  // 16 / (4 x 2)
  EXPECT_EQ(value(job, "parallel.zero"), "1");
  EXPECT_EQ(value(job, "parallel.sequence_parallel"), "true");
  EXPECT_EQ(value(job, "precision"), "bf16");
  EXPECT_EQ(value(job, "batch.global"), "128");
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
  EXPECT_EQ(value(job, "trainer"), "gpt-neox");
  EXPECT_EQ(value(job, "parallel.tensor"), "2");
  EXPECT_EQ(value(job, "parallel.pipeline"), "2");
  EXPECT_EQ(value(job, "parallel.data"), "4");
  EXPECT_EQ(value(job, "parallel.zero"), "1");
  EXPECT_EQ(value(job, "batch.micro"), "4");
  EXPECT_EQ(value(job, "precision"), "bf16");
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

std::string titan_line(int number, const std::string& stamp, const std::string& rank = "rank0") {
  return fmt::format(
      "[{}]:[titan] 2025-07-21 15:57:{} - root - INFO - \x1b[31mstep: {:2}  \x1b[32mloss:  4.9925  \x1b[34mmemory: "
      "40.50GiB(42.60%)  \x1b[36mtps: 7,555  \x1b[35mtflops: 3.15  mfu: 0.32%\x1b[39m\n",
      rank, stamp, number);
}

TEST(TorchtitanLog, StampsSayHowLongStepsTook) {
  std::string text = titan_line(1, "01,000");
  for (int i = 1; i <= 4; ++i)
    for (const char* rank : {"rank0", "rank1"}) text += titan_line(10 * i, fmt::format("{:02},500", 1 + 12 * i), rank);
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.trainer, "torchtitan");
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 1.2);
  EXPECT_EQ(log.run.peak_kind, PeakKind::Reserved);
  EXPECT_DOUBLE_EQ(log.run.peak_bytes, 40.5 * (1 << 30));
  EXPECT_EQ(log.run.left_out.other_ranks, 4);
}

TEST(TorchtitanLog, RatesCountWithoutStamps) {
  std::string text =
      "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]\n"
      "Training starts at step 1, with local batch size 2, global batch size 8, sequence length 8192, total steps 1000\n";
  for (int i = 1; i <= 12; ++i)
    text += fmt::format("step: {:2}  loss:  4.9  memory: 40.50GiB(42.60%)  tps: 8,192  mfu: 0.32%\n", i);
  EXPECT_DOUBLE_EQ(log_of(text).run.measured.median_s, 1);  // 8 x 8192 / (8 GPUs x 8192)
  EXPECT_EQ(log_of(text).run.job.gpus, 8);
}

// A line of a report, whose job a scenario states.
TEST(TorchtitanLog, RatesCountWithTheJobsSize) {
  const std::string line =
      "0: 2025-03-04 00:44:44,441 - root - INFO - step: 1990  memory: 68.57GiB(86.69%)  tps: 8,192  mfu: 1%\n";
  const TrainingLog log = read_training_log(pieces_of(line), "train.log", 0, {.gpus = 4, .batch = 8, .sequence = 8192});
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 2);
  EXPECT_THAT(log_fault(line), HasSubstr("none states how long it took"));
}

TEST(TorchtitanLog, PrintedArgumentsAreTheJob) {
  const TrainingLog log = log_of(
      "[rank0]:[titan] 2025-07-21 15:56:00,000 - root - INFO - Running with args: {\n  \"model\": {\"name\": \"llama3\", "
      "\"flavor\": \"8B\"},\n[rank0]:  \"training\": {\"local_batch_size\": 2, \"seq_len\": 8192},\n  \"parallelism\": "
      "{\"data_parallel_shard_degree\": -1, \"tensor_parallel_degree\": 2}\n}\n"
      "[rank0]:Building 2-D device mesh with ['dp_shard', 'tp'], [8, 2]\n" +
      titan_line(1, "01,000") + titan_line(2, "02,000") + titan_line(3, "03,000"));
  const ImportedJob job = import_stated_job(log, {});
  EXPECT_EQ(value(job, "parallel.tensor"), "2");
  EXPECT_EQ(value(job, "parallel.data"), "8");  // 16 GPUs, as the mesh has them
  EXPECT_EQ(value(job, "batch.micro"), "2");
}

TEST(TorchtitanLog, ValidationIsNoStep) {
  const std::string validation =
      "[titan] 2025-07-21 15:57:30,000 - root - INFO - validate step:  2  loss: 1.0  memory: "
      "1.0GiB(1%)  tps: 1,000\n";
  const TrainingLog log =
      log_of(titan_line(1, "01,000") + titan_line(2, "02,000") + titan_line(3, "03,000") + validation + titan_line(4, "40,000"));
  EXPECT_EQ(log.run.left_out.evaluation, 1);
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 1);
}

TEST(NanotronLog, StepsAndConfiguration) {
  const std::string who = "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: ";
  std::string text = who + "Config:\n";
  for (const char* line :
       {"Config(general=GeneralArgs(project='debug', ignore_sanity_checks=True),",
        "       parallelism=ParallelismArgs(dp=2, pp=2, tp=2,",
        "                                   pp_engine=<nanotron.parallel.engine.OneForward object at 0x7f00>,",
        "                                   tp_mode=<TensorParallelLinearMode.REDUCE_SCATTER: 2>,",
        "                                   recompute_layer=False),",
        "       model=ModelArgs(model_config=LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=8,",
        "             num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512, vocab_size=1000),",
        "             dtype=torch.bfloat16, make_vocab_size_divisible_by=1),",
        "       tokens=TokensArgs(sequence_length=512, micro_batch_size=2, batch_accumulation_per_replica=4),",
        "       profiler=None)"})
    text += who + line + "\n";
  text.replace(text.find("pp_engine="), std::strlen("pp_engine=<nanotron.parallel.engine.OneForward object at 0x7f00>"),
               "pp_engine='1f1b'");
  text += who + " Memory usage: 64.15MiB. Peak allocated 2048.00MiB. Peak reserved: 4096.00MiB\n";
  for (int i = 1; i <= 12; ++i)
    text += who + fmt::format(
                      "iteration: {} / 15 | consumed_tokens: 512 | elapsed_time_per_iteration_ms: {} | tokens_per_sec: 22.8K | "
                      "global_batch_size: 16 | lm_loss: 2.38\n",
                      i, i == 1 ? "11.5K" : "673");
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.trainer, "nanotron");
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 0.673);
  EXPECT_DOUBLE_EQ(log.run.peak_bytes, 2048.0 * (1 << 20));
  const ImportedJob job = import_stated_job(log, {});
  EXPECT_EQ(value(job, "parallel.data"), "2");
  EXPECT_EQ(value(job, "parallel.sequence_parallel"), "true");
  EXPECT_EQ(value(job, "precision"), "bf16-pure");
  EXPECT_EQ(value(job, "batch.microbatches"), "4");
}

TEST(DeepSpeedLog, StampsAndSkippedSteps) {
  std::string text;
  for (int i = 1; i <= 14; ++i) {
    text +=
        fmt::format("[2023-07-25 21:03:{:02},{:03}] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped={}, lr=[2e-06]\n",
                    i, i, i, i >= 7 ? 1 : 0);
    text += fmt::format(
        "[2023-07-25 21:03:{:02},{:03}] [INFO] [timer.py:215:stop] epoch=0/micro_step={}/global_step={}, "
        "RunningAvgSamplesPerSec=7.86, CurrSamplesPerSec=8.0, MemAllocated=59.65GB, MaxMemAllocated=63.31GB\n",
        i, i, 8 * i, i);
  }
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.trainer, "deepspeed");
  EXPECT_NEAR(log.run.measured.median_s, 1.001, 1e-6);
  EXPECT_EQ(log.run.left_out.skipped, 1);
  EXPECT_DOUBLE_EQ(log.run.peak_bytes, 63.31 * (1 << 30));
}

TEST(DeepSpeedLog, PipelineEngineAndOlderTimer) {
  std::string pipeline, older;
  for (int i = 1; i <= 12; ++i) {
    pipeline += fmt::format("steps: {} loss: 1.25 iter time (s): 0.512 samples/sec: 62.5\n", 10 * i);
    older += fmt::format(
        "[2022-03-11 02:06:{:02},985] [INFO] [timer.py:189:stop] 0/{}, SamplesPerSec=83.48, MemAllocated=0.26GB, "
        "MaxMemAllocated=9.02GB\n",
        2 * i, 10 * i);
  }
  EXPECT_DOUBLE_EQ(log_of(pipeline).run.measured.median_s, 0.512);
  EXPECT_NEAR(log_of(older).run.measured.median_s, 0.2, 1e-6);
}

TEST(HuggingFaceLog, BarsOfTraining) {
  std::string text =
      "[INFO|trainer.py:1156] >> ***** Running training *****\n  Total train batch size (w. parallel, distributed & "
      "accumulation) = 64\n"
      "  Total optimization steps = 1,000\nDownloading data: 100%|###| 30.3M/30.3M [00:00<00:00, 39.7MB/s]\n";
  for (int i = 1; i <= 20; ++i) {
    text += fmt::format("\r {:3}%|#####     | {}/1000 [15:32<16:42,  2.03s/it]", i / 10, i);
    text += fmt::format("\r {:3}%|#####     | {}/1000 [15:32<16:42,  2.03s/it]", i / 10, i);
    if (i == 15) text += "\n***** Running Evaluation *****\n\r 50%|## | 5/10 [00:01<00:01,  5.0it/s]";
  }
  const TrainingLog log = log_of(text + "\n{'train_runtime': 40.6, 'train_steps_per_second': 0.4}\n");
  EXPECT_EQ(log.trainer, "huggingface");
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 2.03);
  EXPECT_EQ(log.run.left_out.evaluation, 1);
  EXPECT_EQ(log.run.measured.steps, 18);
  EXPECT_EQ(log.run.job.batch, 64);
}

// The bar of tqdm's own smoothing, with evaluations that take as long as three steps: each step comes back.
TEST(HuggingFaceLog, SmoothingIsUndone) {
  std::string text;
  double steps = 0, time = 0;
  for (int i = 1; i <= 60; ++i) {
    const double seconds = (i % 2 == 0 ? 19.8 : 20.2) + (i % 10 == 0 ? 60 : 0);
    steps = 0.3 + 0.7 * steps, time = 0.3 * seconds + 0.7 * time;
    if (i % 10 == 0) text += "***** Running Evaluation *****\n";
    text += fmt::format("\r {:3}%|#     | {}/60 [15:32<16:42, {:5.2f}s/it]", i, i, time / steps);
  }
  const TrainingLog log = log_of(text + "\n");
  EXPECT_EQ(log.run.left_out.evaluation, 6);
  EXPECT_NEAR(log.run.measured.p10_s, 19.8, 0.03);
  EXPECT_NEAR(log.run.measured.p90_s, 20.2, 0.03);
}

// Each rank reports the start and draws its own bar, one behind the other.
TEST(HuggingFaceLog, BarsOfOtherRanks) {
  std::string text;
  for (int rank = 0; rank < 3; ++rank) text += "***** Running training *****\n  Total optimization steps = 8\n";
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 1; i <= 8; ++i) text += fmt::format("\r {:3}%|#     | {}/8 [15:32<16:42, 112.{}0s/it]", 12 * i, i, rank);
    text += "\n";
  }
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.runs, 1);
  EXPECT_EQ(log.run.logged, 8);
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 112);
  EXPECT_GT(log.run.left_out.other_ranks, 0);
}

TEST(NemoLog, LinesOfNeMo2AndBarsOfNeMo1) {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += fmt::format(
        "[default0]:Training epoch 0, iteration {0}/19 | lr: 1e-07 | global_batch_size: 512 | global_step: {0} | "
        "reduced_train_loss: 11.03 | train_step_timing in s: {1}{2}\n",
        i, i == 0 ? 10.31 : 7.5, i == 0 ? "" : " | consumed_samples: 1024");
  EXPECT_EQ(log_of(text).trainer, "nemo");
  EXPECT_DOUBLE_EQ(log_of(text).run.measured.median_s, 7.5);
  EXPECT_EQ(log_of(text).run.job.batch, 512);
  text.clear();
  for (int i = 1; i <= 12; ++i)
    text += fmt::format(
        "\rEpoch 0: : {0}%|#   | {0}/50 [31:51<00:00, reduced_train_loss=6.130, global_step={0}.0, "
        "consumed_samples=76800.0, train_step_timing in s=5.900]",
        i);
  EXPECT_EQ(log_of(text).trainer, "nemo");
  EXPECT_DOUBLE_EQ(log_of(text).run.measured.median_s, 5.9);
  EXPECT_EQ(log_of(text).run.last_step, 12);
  const TrainingLog older = log_of(
      "Epoch 0:   1%|          | 794/77225 [9:07:17<878:01:48, 41.36s/it, loss=3.1, reduced_train_loss=3.090, "
      "global_step=793.0]\n"
      "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, reduced_train_loss=3.090, "
      "global_step=794.0]\n");
  EXPECT_DOUBLE_EQ(older.run.measured.median_s, 41.36);
}

TEST(HuggingFaceLog, WithoutBarsTheMeanOfTheRun) {
  const TrainingLog log =
      log_of("  Total optimization steps = 203\n{'train_runtime': 40.6, 'train_steps_per_second': 5.0, 'epoch': 1}\n");
  EXPECT_DOUBLE_EQ(log.run.measured.median_s, 0.2);
  EXPECT_EQ(log.run.last_step, 203);
  const TrainingLog slow =
      log_of("TrainOutput(global_step=7, metrics={'train_runtime': 1003.8, 'train_steps_per_second': 0.007, 'epoch': 1.0})\n");
  EXPECT_DOUBLE_EQ(slow.run.measured.median_s, 1003.8 / 7);
}

TEST(ComposerLog, SamplesSayMoreThanBatches) {
  std::string text = "num_gpus_per_node: 8\nnum_nodes: 2\n";
  for (int i = 1; i <= 12; ++i)
    text += fmt::format(
        "[batch={0}/100]:\n\t Train time/batch: {1}\n\t Train time/sample: {2}\n\t Train memory/peak_allocated_mem: "
        "26.1000\n"
        "\t Train throughput/batches_per_sec: 0.0027\n\t Train throughput/samples_per_sec: 2.7330\n"
        "\t Train throughput/device/samples_per_sec: 0.1708\n",
        i, i - 1, 1024 * (i - 1));
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.trainer, "llm-foundry");
  EXPECT_NEAR(log.run.measured.median_s, 1024 / 2.733, 1e-9);
  EXPECT_DOUBLE_EQ(log.run.peak_bytes, 26.1e9);
  EXPECT_EQ(log.run.job.gpus, 16);
}

// Megatron-DeepSpeed prints the lines of both.
TEST(TrainingLogs, TheTrainerAboveALibraryCounts) {
  std::string text;
  for (int i = 1; i <= 12; ++i)
    text += fmt::format(
                "[2024-04-21 02:45:{:02},720] [INFO] [timer.py:260:stop] epoch=0/micro_step={}/global_step={}, "
                "RunningAvgSamplesPerSec=74.6, CurrSamplesPerSec=74.6, MemAllocated=4.75GB, MaxMemAllocated=15.59GB\n",
                i, i, i) +
            megatron_line(i, 100);
  const TrainingLog log = log_of(text);
  EXPECT_EQ(log.trainer, "megatron-core");
  EXPECT_THAT(log.other_trainers, ElementsAre("deepspeed"));
}

TEST(TrainingLogs, WhatIsNoLogIsRefused) {
  EXPECT_THAT(log_fault("hello\nworld\n"), HasSubstr("train.log: no step of a known trainer is in it"));
  EXPECT_THAT(log_fault("hello\n"), HasSubstr("nanotron: iteration: 10 / 100"));
  EXPECT_THAT(log_fault(std::string(100, '\0') + "\n"), HasSubstr("this is no text, so no log"));
  EXPECT_THAT(log_fault(""), HasSubstr("no step of a known trainer"));
  EXPECT_THAT(log_fault("steps: 10 loss: 1.25 iter time (s): 0.0 samples/sec: 62.5\n"),
              HasSubstr("none states how long it took"));
  EXPECT_THAT(fault_of([] { import_stated_job(log_of(megatron_lines(1, 9)), {}); }), HasSubstr("does not state the job"));
}

// 64 MiB without a line end: read in blocks, and none of it is kept.
TEST(TrainingLogs, PackedOnesAreNamed) {
  EXPECT_THAT(log_fault("\x1f\x8b\x08 and more"), HasSubstr("this is packed by gzip"));
  EXPECT_THAT(log_fault("\x1f\x8b\x08 and more"), HasSubstr("zcat train.log > plain.log"));
  EXPECT_THAT(log_fault(std::string("\xff\xfei\0t\0", 6)), HasSubstr("iconv -f UTF-16 -t UTF-8 train.log"));
}

TEST(TrainingLogs, NoLineEnd) {
  std::size_t left = 64UL << 20;
  const auto source = [&](char* buffer, std::size_t size) {
    const std::size_t count = std::min(size, left);
    std::memset(buffer, 'x', count);
    left -= count;
    return count;
  };
  EXPECT_THAT(fault_of([&] { read_training_log(source, "endless.log"); }), HasSubstr("no step of a known trainer"));
}

}  // namespace
}  // namespace panpipe::jobs
