// `panpipe measure-device --device cuda`: every kind of quantity, and cards that are not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/cli/program.hpp"
#include "tests/stand_in_gpu/stand_in.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;

TEST(MeasureDeviceOnGpus, MeasuresEveryKindOfQuantity) {
  const std::string file = temporary_folder() + "/card.yaml";
  const Ended run = on_stand_in("measure-device --device cuda:1 --minutes 1 --json -o " + file,
                                {{"STAND_IN_GPUS", "2"}, {"STAND_IN_SLOWED", "64"}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto document = nlohmann::json::parse(run.out);
  std::set<std::string> found;
  for (const auto& each : document["quantities"]) found.insert(each["quantity"]);
  for (const char* quantity : {"product", "attention_forward", "attention_backward", "copy", "elementwise", "launch",
                               "kernel_gap", "synchronise", "host_copy", "peer_copy"})
    EXPECT_TRUE(found.contains(quantity)) << quantity << "\n" << document["unknown"];
  EXPECT_EQ(document["device"], "Stand-in GPU");
  EXPECT_EQ(document["measured"]["multiprocessors"], 82);
  EXPECT_THAT(document["measured"], testing::Truly([](const auto& facts) { return facts.contains("clock_mhz"); }));
  EXPECT_THAT(document["notes"].dump(), HasSubstr("slowed down because of heat"));
  EXPECT_THAT(document["notes"].dump(), HasSubstr("another process may share the card"));
  const std::string text = read_file(file);
  EXPECT_THAT(text, HasSubstr("driver_name: \"Stand-in GPU\""));
  EXPECT_THAT(text, HasSubstr("copy_bandwidth: "));
}

TEST(MeasureDeviceOnGpus, NamesTheCardsThereAre) {
  const std::string out = " -o " + temporary_folder() + "/card.yaml";
  const Ended beyond = on_stand_in("measure-device --device cuda:2" + out, {{"STAND_IN_GPUS", "2"}});
  EXPECT_EQ(beyond.exit_code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--device cuda:2: this process sees 2 cards: cuda:0 to cuda:1"));
  const Ended none = on_stand_in("measure-device --device cuda" + out, {{"STAND_IN_GPUS", "0"}});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("--device cuda: "));
}

}  // namespace
}  // namespace panpipe::test
