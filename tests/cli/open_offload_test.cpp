// What `panpipe plan --open` does where nothing fits: state and activations go to the host's memory, for one cluster, for each
// size of clusters, and for each size of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// 110 M parameters on cards of which programs may use some percent.
std::string tiny() {
  return write_file(temporary_folder() + "/tiny.yaml",
                    "panpipe: 1\n"
                    "cluster: {file: clusters/rtx4090x8.yaml}\n"
                    "workload: {model: gpt, layers: 8, hidden: 1024, heads: 16, vocabulary: 8192, sequence: 512}\n"
                    "batch: {micro: 1, global: 16}\n"
                    "precision: fp16\nframework: eager\nschedule: 1f1b\nrecompute: none\nparallel: {pipeline: 8}\n");
}

json answer_in(const std::string& call) { return json::parse(answer_of(call + " --json")); }
std::string usable(const char* share) { return fmt::format(" --set 'usable={} %'", share); }

// Rank 0 holds eight microbatches. It needs 2.00 GiB of 23.52 (8.5 %), 1.82 (7.7 %) with its activations in the host's memory,
// 1.84 (7.8 %) with the optimizer there, and 1.66 (7.1 %) with both. The step is longer with the optimizer there.
TEST(OpenOffload, TakesWhatSuffices) {
  const std::string plan = "plan " + tiny() +
                           " --set partition=[3,5,7,9,11,13,15] --set schedule=1f1b --set parallel.tensor=1"
                           " --set parallel.pipeline=8 --set parallel.virtual_stages=1 --set recompute=none"
                           " --set batch.micro=1 --open --candidates 1";
  const auto settings = [&](const char* share) { return answer_in(plan + usable(share))["best"]["settings"]; };
  EXPECT_THAT(settings("8.6").dump(), Not(HasSubstr("offload")));
  const json activations = settings("8"), both = settings("7.4");
  EXPECT_EQ(activations["offload.activations"], "full");
  EXPECT_FALSE(activations.contains("offload.optimizer"));
  EXPECT_EQ(both["offload.activations"], "full");
  EXPECT_EQ(both["offload.optimizer"], "cpu");
  EXPECT_EQ(panpipe(plan + usable("6.5")).exit_code, 1);
}

// Two replicas hold half of the state each, four a quarter: the smaller cluster alone takes the host's memory, and its plan file
// states it.
TEST(OpenOffload, IsOfTheSizeThatNeedsIt) {
  const std::string two_cards = tiny() +
                                " --set cluster.devices_per_node=2 --set 'cluster.wiring.sockets.groups=[[0],[1]]'"
                                " --set workload.layers=4 --set workload.sequence=1024 --set batch.global=8 --set parallel={}" +
                                usable("7");
  const std::string call = "plan " + two_cards + " --set parallel.pipeline=1 --set parallel.tensor=1 --open --tokens 1B";
  const json sizes = answer_in(call + " --nodes 1,2")["sizes"];
  EXPECT_THAT(sizes[0]["plan"].get<std::string>(), HasSubstr("in the host's memory"));
  EXPECT_THAT(sizes[1]["plan"].get<std::string>(), Not(HasSubstr("in the host's memory")));
  const json without = answer_in(call + " --nodes 1,2 --set offload.optimizer=none")["sizes"];
  EXPECT_EQ(without[0]["verdict"], "no plan");
  EXPECT_EQ(without[1]["plan"], sizes[1]["plan"]);
  const std::string file = temporary_folder() + "/plan.yaml";
  answer_of(call + " --nodes 1 -o " + file);
  const json again = answer_in("estimate " + two_cards + " --plan " + file);
  EXPECT_EQ(again["metrics"]["fits"], true);
  const json micro = answer_in(call + " --set cluster.nodes=1 --largest micro")["devices"][0];
  EXPECT_THAT(micro["largest"]["plan"].get<std::string>(), HasSubstr("parameters in the host's memory"));
}

// A value fits where a plan with offload does, and the need stated is that plan's.
TEST(OpenOffload, IsOfTheLargestMicrobatch) {
  const std::string open = tiny() + " --set framework=panpipe --set workload.sequence=1024 --set parallel.pipeline=4" +
                           " --set parallel.data=1 --set parallel.tensor=1 --set parallel.virtual_stages=1" +
                           " --set schedule=1f1b --set recompute=none --open" + usable("10");
  const json row = answer_in("plan " + open + " --largest micro")["devices"][0];
  EXPECT_THAT(row["largest"]["plan"].get<std::string>(), HasSubstr("in the host's memory"));
  const json best = answer_in(fmt::format("plan {} --set batch.micro={}", open, row["fits"].get<int>()))["best"];
  EXPECT_EQ(best["metrics"]["peak_memory_bytes"], row["largest"]["need_bytes"]);
  const json without = answer_in("plan " + open + " --set offload.optimizer=none --largest micro")["devices"][0];
  EXPECT_GT(row["fits"], without["fits"]);
}

// `check` prints the hints that `estimate` states, as comments of a scenario that loads again.
TEST(MemoryHints, StandInWhatCheckPrints) {
  const std::string scenario = tiny(), tight = scenario + usable("8");
  const std::string text = answer_of("check " + tight);
  const json hints = answer_in("estimate " + tight)["memory_hints"];
  ASSERT_GE(hints.size(), 2u);
  std::size_t at = 0;
  for (const json& hint : hints) {
    at = text.find("\n# memory: with " + hint["setting"].get<std::string>(), at);
    ASSERT_NE(at, std::string::npos) << hint << text;
    EXPECT_THAT(text.substr(at, text.find('\n', at + 1) - at), HasSubstr("it fits " + hint["fits_how"].get<std::string>()));
  }
  EXPECT_EQ(text.find("# memory: ", at + 3), std::string::npos);
  const std::string printed = write_file(temporary_folder() + "/printed.yaml", text);
  EXPECT_EQ(answer_in("estimate " + printed)["metrics"], answer_in("estimate " + tight)["metrics"]);
  EXPECT_THAT(answer_of("check " + scenario), Not(HasSubstr("# memory:")));
}

// A cluster without rates has no step, so no need and no hint of one; it is checked all the same.
TEST(MemoryHints, NeedRates) {
  const std::string bare = tiny() + " --set 'cluster={devices: 8, memory: 1 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}'";
  const std::string text = answer_of("check " + bare);
  EXPECT_THAT(text, HasSubstr("8 stages on 8 devices: legal"));
  EXPECT_THAT(text, Not(HasSubstr("# memory:")));
}

}  // namespace
}  // namespace panpipe::test
