// Training over NCCL on the stand-in GPU equals training on the CPU, whatever the streams' delays.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/schedule/schedule.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

constexpr const char* kSteps = "--steps 2 ";
constexpr int kMicrobatches = 6;  // stp needs 3 P - 1 over P ranks

// Groups of families, so that few processes of tests load LibTorch.
class EveryFamily : public testing::TestWithParam<int> {
 public:
  static constexpr int kGroups = 4;
};

TEST_P(EveryFamily, EqualsTheCpu) {
  const Trained cpu = train_on_cpu(scenario_file(small_gpt({1}, "", 4, kMicrobatches)), kSteps);
  int index = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    if (index++ % kGroups != GetParam()) continue;
    SCOPED_TRACE(family.name);
    const std::string scenario = scenario_file(small_gpt({2}, fmt::format("schedule: {}\n", family.name), 4, kMicrobatches));
    expect_same_training(train_on_stand_in(scenario, kSteps), cpu);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, EveryFamily, testing::Range(0, EveryFamily::kGroups));

}  // namespace
}  // namespace panpipe::test
