// Training logs of any trainer: lines, steps, the run's length, hostile input.
#include "jobs/log/read_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "jobs/log/log_fields.hpp"
#include "tests/jobs/logs.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(TrainingLogs, PackedOnesAreNamed) {
  EXPECT_THAT(log_fault("\x1f\x8b\x08 and more"), HasSubstr("this is packed by gzip"));
  EXPECT_THAT(log_fault("\x1f\x8b\x08 and more"), HasSubstr("zcat train.log > plain.log"));
  EXPECT_THAT(log_fault(std::string("\xff\xfei\0t\0", 6)), HasSubstr("iconv -f UTF-16 -t UTF-8 train.log"));
}

// 64 MiB without a line end: read in blocks, and none of it is kept.
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
