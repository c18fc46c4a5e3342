// Logs of other trainers than Megatron-LM, each with its format.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/jobs/logs.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
  // parallel.data: 16 GPUs, as the mesh has them
  expect_values(job, "parallel.tensor: 2; parallel.data: 8; batch.micro: 2");
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
  expect_values(job, "parallel.data: 2; parallel.sequence_parallel: true; precision: bf16-pure; batch.microbatches: 4");
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

}  // namespace
}  // namespace panpipe::jobs
