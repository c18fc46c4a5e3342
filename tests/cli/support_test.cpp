// panpipe support, and the interval in the documents of other verbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kExample = "scenarios/examples/gpt3-175b-a100x64.yaml";

TEST(SupportVerb, SaysWhatWasComparedPartByPart) {
  const json document = json::parse(answer_of("support --json " + kExample));
  EXPECT_EQ(document["schema"], "panpipe-support/1");
  EXPECT_LT(document["step_time_p10_s"], document["step_time_s"]);
  EXPECT_GT(document["step_time_p90_s"], document["step_time_s"]);
  EXPECT_EQ(document["evidence"]["class"], "dense, NVLink");
  EXPECT_EQ(document["parts"][1]["what"], "device");
  EXPECT_EQ(document["parts"][1]["value"], "A100-SXM");
  EXPECT_GT(document["parts"][0]["runs"], 0);
  EXPECT_EQ(document["devices"][0]["calibration"], "a100-80g-sxm");
  const std::string text = panpipe("support " + kExample).out;
  EXPECT_THAT(text, HasSubstr("80 % of runs are expected from "));
  EXPECT_THAT(text, HasSubstr("numbers of A100-80G-SXM (a100-80g-sxm):"));
}

TEST(SupportVerb, NamesWhatWasNeverCompared) {
  EXPECT_THAT(
      json::parse(answer_of(
          "support scenarios/examples/gpt2-large-rtx3090x8.yaml --set schedule=dualpipe-v --set batch.microbatches=16 --json"))
          ["never_compared"]
              .dump(),
      HasSubstr("schedule dualpipe-v"));
}

TEST(SupportVerb, ResultDocumentsCarryTheIntervalAndItsEvidence) {
  for (const std::string verb : {"estimate", "simulate"}) {
    const json document = json::parse(answer_of(verb + " --json " + kExample));
    EXPECT_LT(document["metrics"]["step_time_p10_s"], document["metrics"]["step_time_s"]);
    EXPECT_GT(document["metrics"]["step_time_p90_s"], document["metrics"]["step_time_s"]);
    EXPECT_FALSE(document["evidence"]["limits"].empty());
  }
  EXPECT_THAT(panpipe("estimate " + kExample).out, HasSubstr("  80 % of runs are expected from "));
}

}  // namespace
}  // namespace panpipe::test
