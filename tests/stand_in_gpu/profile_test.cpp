// `panpipe profile --device cuda`: every unit and every link is measured, by events on streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(ProfileOnGpus, MeasuresEveryUnitAndLink) {
  const std::string file = temporary_folder() + "/profile.yaml";
  const Ended run = on_stand_in(
      "profile " + scenario_file(small_gpt({2})) + " --device cuda --seconds 1 --repetitions 5 --transport nccl -o " + file,
      {{"STAND_IN_GPUS", "2"}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string profile = read_file(file);
  // Two layers: an embedding, two of attention and two of products, and the head with its loss.
  for (const char* unit : {"embedding", "head"})
    EXPECT_THAT(profile,
                ContainsRegex("name: \"" + std::string(unit) + "\"[^}]*forward: [0-9.]+ [um]s, backward: [0-9.]+ [um]s"));
  EXPECT_THAT(profile, Not(HasSubstr("forward: 0 ")));
  EXPECT_THAT(profile, ContainsRegex("from: 0, to: 1, table: \\[\\[0 B, [0-9.]+ [um]s\\]"));
}

}  // namespace
}  // namespace panpipe::test
