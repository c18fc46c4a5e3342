// `panpipe profile --device cuda`: every unit and every link is measured, by events on streams.
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

TEST(ProfileOnGpus, MeasuresEveryUnitAndLink) {
  for (const std::string transport : {"nccl", "local"}) {
    SCOPED_TRACE(transport);
    const std::string file = temporary_folder() + "/profile.json";
    const Ended run = on_stand_in("profile " + scenario_file(small_gpt({2})) +
                                      " --device cuda --seconds 1 --repetitions 3 --transport " + transport + " -o " + file,
                                  {{"STAND_IN_GPUS", "2"}});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const nlohmann::json profile = nlohmann::json::parse(read_file(file));
    ASSERT_FALSE(profile.at("units").empty());
    for (const nlohmann::json& unit : profile.at("units")) EXPECT_GT(unit.at("forward_s").get<double>(), 0) << unit;
    EXPECT_FALSE(profile.at("transfers").empty());
  }
}

}  // namespace
}  // namespace panpipe::test
