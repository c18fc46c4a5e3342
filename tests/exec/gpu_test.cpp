// Runs on GPUs, where there are any: ranks as streams of one device, equal to the CPU; spans from events; mixed precision.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/engine/device.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (gpu_count(&why) == 0) GTEST_SKIP() << "no GPU: " << why;
  }
  Outcome run(int pipeline, int data, const std::string& extra, const std::string& device) {
    const std::string file = folder_.write("gpt.yaml", small_gpt(pipeline, data, 4, extra));
    RunRequest request = quiet(file, 3);
    request.device = device;
    return run_threads(file, request);
  }
  Folder folder_;
};

TEST_F(Gpu, RanksThatShareADeviceEqualTheCpu) {
  const Outcome cpu = run(1, 1, "", "cpu"), gpu = run(2, 1, "", "cuda");
  ASSERT_EQ(gpu.error(), "");
  const std::vector<double> expected = cpu.losses(), found = gpu.losses();
  ASSERT_EQ(found.size(), expected.size());
  // Sums of another order: fp32 differs in the last digits, and three steps of an optimizer widen it.
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i]));
}

TEST_F(Gpu, SpansComeFromEventsAndFollowEachOther) {
  const Outcome gpu = run(2, 1, "", "cuda");
  ASSERT_EQ(gpu.error(), "");
  double last = 0;
  for (const Span& span : gpu.timeline.spans) {
    if (span.device != 0 || span.lane != Lane::Compute) continue;
    EXPECT_GE(span.end, span.start);
    EXPECT_GE(span.start.base(), last - 1e-6) << "one stream runs one action after the other";
    last = span.end.base();
  }
  EXPECT_GT(last, 0);
}

TEST_F(Gpu, MixedPrecisionLearns) {
  const Outcome gpu = run(2, 1, "precision: bf16\n", "cuda");
  ASSERT_EQ(gpu.error(), "");
  for (const double loss : gpu.losses()) EXPECT_TRUE(std::isfinite(loss));
}

TEST_F(Gpu, WovenTensorParallelRanksEqualTheCpu) {
  const Outcome cpu = run(1, 1, "", "cpu");
  std::string text = small_gpt(2, 1, 4, "schedule: {name: interleaved-1f1b, combined: true}\n");
  text.replace(text.find("data: 1}"), 8, "data: 1, tensor: 2}").replace(text.find("devices: 2"), 10, "devices: 4");
  const std::string file = folder_.write("tensor.yaml", text);
  RunRequest request = quiet(file, 3);
  request.device = "cuda";
  const Outcome gpu = run_threads(file, request);
  ASSERT_EQ(gpu.error(), "");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(gpu.losses()[i], cpu.losses()[i], 1e-4 * cpu.losses()[i]);
}

TEST_F(Gpu, OffloadedActivationsComeBack) {
  const Outcome cpu = run(1, 1, "", "cpu");
  const std::string row =
      "{0}F0,{0}OFFLOAD0,{0}F1,{0}OFFLOAD1,{0}RELOAD0,{0}B0,{0}F2,{0}OFFLOAD2,{0}RELOAD1,{0}B1,{0}F3,{0}RELOAD2,{0}B2,{0}B3\n";
  const std::string schedule = folder_.write("order.csv", fmt::format(fmt::runtime(row), 0) + fmt::format(fmt::runtime(row), 1));
  const Outcome gpu = run(2, 1, "schedule: {csv: " + schedule + "}\n", "cuda");
  ASSERT_EQ(gpu.error(), "");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(gpu.losses()[i], cpu.losses()[i], 1e-4 * cpu.losses()[i]);
  std::int64_t away = 0;
  for (const Span& span : gpu.timeline.spans)
    if (span.lane == Lane::Copy && span.action.kind == ActionKind::Offload) away += span.bytes.base();
  EXPECT_GT(away, 0);
}

}  // namespace
}  // namespace panpipe::exec
