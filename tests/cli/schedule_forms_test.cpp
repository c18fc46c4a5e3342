// Outputs of `panpipe schedule` besides its table: pictures, communication, transfers under named semantics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace panpipe {
namespace {

using test::answer_of;
using test::Outcome;
using test::panpipe;
using test::refusal_of;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";

TEST(CliSchedule, WritesAPicture) {
  const std::string file = test::temporary_folder() + "/order.svg";
  const Outcome run = panpipe("schedule 1f1b --ranks 4 --microbatches 8 -o " + file);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(test::read_file(file), StartsWith("<svg xmlns="));
  EXPECT_EQ(panpipe("schedule 1f1b --ranks 4 --microbatches 8 --svg").out, test::read_file(file));
}

// Of a broken order the help stands once.
TEST(CliSchedule, EachFaultOfAnOrderIsReported) {
  const std::string broken = test::temporary_folder() + "/order.csv";
  test::write_file(broken, "0F0,0X0,0Y0\n");
  const std::string err = panpipe("schedule " + broken).err;
  EXPECT_THAT(err, HasSubstr("unknown action 'Y'"));
  EXPECT_EQ(err.find("help: actions are"), err.rfind("help: actions are"));
}

TEST(CliSchedule, AnIllegalOrderHasNoPicture) {
  const Outcome run = panpipe(
      "schedule pfeife --ranks 4 --microbatches 5 --option stages_per_rank=3 --option loop_batch=4 --option prefetch=3 --svg");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("the order cannot finish"));
}

TEST(CliSchedule, PredictionsDrawThemselves) {
  const std::string folder = test::temporary_folder();
  EXPECT_EQ(panpipe("simulate " + kGpt2 + " -o " + folder).exit_code, 0);
  const std::string picture = test::read_file(folder + "/schedule.svg");
  EXPECT_THAT(picture, StartsWith("<svg xmlns="));
  EXPECT_THAT(picture, HasSubstr("gpt2-large-rtx3090x8: simulated"));
  EXPECT_THAT(picture, HasSubstr("memory allocated"));
}

// The times by hand: tests/schedule/communication_test.cpp.
TEST(CliSchedule, ComparesTransferSemantics) {
  const std::string order = "schedule 1f1b --ranks 2 --microbatches 2 --costs comm=1 ";
  EXPECT_THAT(answer_of(order + "--semantics all"),
              StartsWith("1f1b: 2 ranks, 2 stages, 2 microbatches\n"
                         "semantics     receives early  receives late\n"
                         "asynchronous              11             11\n"
                         "buffered                  11             11\n"
                         "blocking                  13       deadlock\n"
                         "batched                   13             12\n"
                         "receives late: finishes under asynchronous, buffered, batched, deadlocks under blocking:\n"));
  EXPECT_EQ(panpipe(order + "--lower send-recv --semantics blocking").exit_code, 0);
  const Outcome blocked = panpipe(order + "--lower send-recv --defer-receives --semantics blocking");
  EXPECT_EQ(blocked.exit_code, 1);
  EXPECT_THAT(blocked.out, HasSubstr("finishes under asynchronous, buffered, batched, deadlocks under blocking"));
  const Outcome json = panpipe(order + "--semantics blocking --json");
  EXPECT_THAT(json.out, HasSubstr("\"schema\": \"panpipe-transfers/1\""));
  EXPECT_THAT(json.out, HasSubstr("\"finishes\": false"));
}

TEST(CliSchedule, LoweredOrdersAreReadBack) {
  const std::string file = test::temporary_folder() + "/lowered.csv";
  EXPECT_EQ(panpipe("schedule zb-v --ranks 4 --microbatches 8 --lower unshard,send-recv --csv -o " + file).exit_code, 0);
  EXPECT_THAT(test::read_file(file), StartsWith("0UNSHARD,7UNSHARD,0F0,0SEND_F0,"));
  EXPECT_THAT(answer_of("schedule " + file + " --json"), HasSubstr("\"legal\": true"));
  EXPECT_EQ(panpipe("schedule " + file + " --lower send-recv").err,
            "error: the order has sends and receives of its own (0SEND_F0)\n");
}

TEST(CliSchedule, MemoryActionsOfFilesToo) {
  const std::string file = test::temporary_folder() + "/order.csv";
  test::write_file(file, "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\r\n");
  EXPECT_THAT(panpipe("schedule " + file + " --option offload=selective --csv").out,
              EndsWith("0F0,0F1,0OFFLOAD1,0F2,0OFFLOAD2,0F3,0OFFLOAD3,0RELOAD1,0B0,0RELOAD2,0B1,0RELOAD3,0B2,0B3\r\n"));
  EXPECT_THAT(panpipe("schedule " + file + " --option offload=full --costs offload=9").out,
              HasSubstr("activations held at once: 4 at most"));  // the round trip is longer than any life
  EXPECT_THAT(panpipe("schedule " + file + " --option group=2").err,
              HasSubstr("makes no sense for an order from a file: only braid, recompute and offload do"));
}

}  // namespace
}  // namespace panpipe
