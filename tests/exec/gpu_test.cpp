// Runs on GPUs, where there are any: ranks as streams of one device, equal to the CPU; spans from events; mixed precision.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/engine/device.hpp"
#include "exec/engine/profile/profile_rank.hpp"
#include "exec/engine/transport/on_threads.hpp"
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

TEST_F(Gpu, MemoryIsTheAllocatorsCount) {
  const Outcome gpu = run(1, 1, "", "cuda"), cpu = run(1, 1, "", "cpu");
  ASSERT_EQ(gpu.error(), "");
  const Bytes on_gpu = gpu.timeline.devices.front().peak, on_cpu = cpu.timeline.devices.front().peak;
  // The same tensors in blocks of 512 bytes, and the work space of cuBLAS: up to 32 MiB for each of its handles, one of the
  // rank's thread and one of autograd's, and as much again for cuBLASLt.
  EXPECT_GE(on_gpu, on_cpu / 2);
  EXPECT_LE(on_gpu, 4 * on_cpu + mib(4 * 32));
}

TEST_F(Gpu, ProfileOfEveryUnitAndLink) {
  ProfileRequest request;
  request.scenario = folder_.write("gpt.yaml", small_gpt(2, 1, 4));
  request.transport = "local";
  request.device = "cuda";
  request.ranks = 2;
  request.repetitions = 5;
  request.seconds = 1;
  request.operators = "asked for";
  const PreparedProfile job(request);
  std::vector<Profile> profiles(2);
  std::vector<std::vector<MeasuredOperator>> operators(2);
  on_threads(make_local_transports(2), [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    profiles[rank] = profile_rank(job, transport, &operators[rank]);
  });
  ASSERT_EQ(profiles[0].units.size(), job.graph().units.size());
  for (const ProfiledUnit& unit : profiles[0].units) {
    EXPECT_GT(unit.forward, Duration(0)) << unit.name;
    EXPECT_GT(unit.backward, Duration(0)) << unit.name;
    // An embedding keeps the ids that it was given, and makes nothing that its backward needs.
    EXPECT_EQ(unit.saved > Bytes(0), &unit != &profiles[0].units.front()) << unit.name;
  }
  EXPECT_EQ(operators[0].size(), job.graph().operators.size());
  EXPECT_EQ(profiles[0].transfers.size(), 2u);
  EXPECT_GT(profiles[0].memory_bandwidth, Bandwidth(0));
}

TEST_F(Gpu, SlicedSequencesEqualTheCpu) {
  const Outcome cpu = run(1, 1, "", "cpu"), gpu = run(2, 1, "schedule: seq-1f1b\n", "cuda");
  ASSERT_EQ(gpu.error(), "");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(gpu.losses()[i], cpu.losses()[i], 1e-4 * cpu.losses()[i]);
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
