// Runs on GPUs, where there are any: ranks as streams of one device, equal to the CPU; spans from events; mixed precision.
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

}  // namespace
}  // namespace panpipe::exec
