// The largest microbatch and the longest sequence that fit, as a user asks for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";
const std::string kLlama = "scenarios/examples/llama-3-8b-h100.yaml";

json metrics_at(const std::string& arguments) { return json::parse(answer_of("estimate --json " + arguments))["metrics"]; }

json row_of(const std::string& arguments) { return json::parse(panpipe(arguments + " --json").out)["devices"][0]; }

struct Asked {
  std::string scenario;
  const char *of, *key;
  bool of_batch = false;  // the scenario states the samples of a step
};

// What fits and what does not is what the verb itself predicts there, with the microbatches of a step as they are.
TEST(Largest, IsTheBoundaryOfTheVerbsOwnEstimates) {
  const char *micro = "batch.micro", *sequence = "workload.sequence";
  const Asked asked[] = {{kGpt2, "micro", micro},
                         {kGpt2 + " --set schedule=1f1b --set framework=eager --set recompute=full", "micro", micro},
                         {kGpt2 + " --set schedule=zb-h1 --set 'usable=60 %'", "micro", micro},
                         {kGpt2 + " --set batch.micro=8", "micro", micro},  // does not fit itself
                         {kGpt2 + " --set 'usable=60 %' --set batch.micro=4", "sequence", sequence},
                         {kLlama, "micro", micro, true},
                         {kLlama + " --set framework=torchtitan", "sequence", sequence},
                         {kLlama + " --set parallel.context=2 --set parallel.data=4", "sequence", sequence},
                         {"scenarios/examples/mixtral-8x7b-h100x64.yaml", "micro", micro, true},
                         {"scenarios/examples/gpt3-175b-a100x64.yaml", "sequence", sequence}};
  for (const Asked& each : asked) {
    const json row = row_of("estimate " + each.scenario + " --largest " + each.of);
    const int fits = row["fits"];
    ASSERT_GT(fits, 0) << each.scenario;
    ASSERT_FALSE(row["next"].is_null()) << each.scenario;
    const int samples = row["largest"]["samples"];
    const auto at = [&](int value) {
      return metrics_at(fmt::format("{} --set {}={}{}", each.scenario, each.key, value,
                                    each.of_batch ? fmt::format(" --set batch.global={}", samples / fits * value) : ""));
    };
    EXPECT_EQ(at(fits)["fits"], true) << each.scenario;
    EXPECT_EQ(at(fits)["peak_memory_bytes"], row["largest"]["need_bytes"]) << each.scenario;
    EXPECT_EQ(at(fits)["fits_how"], row["largest"]["fits_how"]) << each.scenario;
    if (!row["next"].contains("reason")) {
      EXPECT_EQ(at(row["next"]["value"])["fits"], false) << each.scenario;
    }
    if (row["surely"] > 0) {
      EXPECT_EQ(at(row["surely"])["fits_how"], "surely") << each.scenario;
    }
    EXPECT_LE(row["surely"], row["probably"]) << each.scenario;
    EXPECT_LE(row["probably"], row["fits"]) << each.scenario;
  }
}

TEST(Largest, EachDeviceIsARow) {
  const json answer =
      json::parse(answer_of("estimate " + kGpt2 + " --largest micro --device rtx-3090,a100-40g-sxm,a100-80g-sxm --json"));
  ASSERT_EQ(answer["devices"].size(), 3u);
  EXPECT_EQ(answer["devices"][0]["device"], "RTX3090");
  EXPECT_LT(answer["devices"][0]["fits"], answer["devices"][1]["fits"]);
  EXPECT_LT(answer["devices"][1]["fits"], answer["devices"][2]["fits"]);
  const json own = row_of("estimate " + kGpt2 + " --largest micro");
  EXPECT_EQ(own["fits"], answer["devices"][0]["fits"]);
  const std::string text = answer_of("estimate " + kGpt2 + " --largest micro --device rtx-3090,a100-40g-sxm");
  EXPECT_THAT(text, HasSubstr("the largest microbatch that fits\n"));
  EXPECT_THAT(text, HasSubstr("kept: the 8 microbatches of a step"));
}

// The scenario has a price list with H100 and H200 alone.
TEST(Largest, ADeviceNeedsNoPrice) {
  const json row = row_of("estimate scenarios/examples/llama-3-8b-h100.yaml --largest micro --device a100-80g-sxm");
  EXPECT_EQ(row["device"], "A100-80G-SXM");
  EXPECT_GE(row["fits"], 1);
}

TEST(Largest, WhereNothingFitsTheExitCodeIsOne) {
  const Outcome run = panpipe("estimate " + kGpt2 + " --largest micro --set 'usable=5 %' --json");
  EXPECT_EQ(run.exit_code, 1);
  const json answer = json::parse(run.out);
  EXPECT_EQ(answer["feasible"], false);
  EXPECT_TRUE(answer["devices"][0]["largest"].is_null());
  EXPECT_EQ(answer["devices"][0]["next"]["value"], 1);
  EXPECT_GT(answer["devices"][0]["ends_by"]["bytes"], 0);
}

// The positions of this file are learned: there are 1024 of them.
TEST(Largest, AModelMayEndASequence) {
  const json row =
      row_of("estimate " + kGpt2 + " --set 'workload={config: {model_type: gpt2}, sequence: 512}' --largest sequence");
  EXPECT_EQ(row["fits"], 1024);
  EXPECT_THAT(row["next"]["reason"].get<std::string>(), HasSubstr("learned positions"));
}

// A plan's stages and order stay; what the file decides may vary all the same.
TEST(Largest, OfAPlanFile) {
  const std::string file = temporary_folder() + "/plan.yaml";
  answer_of("plan " + kGpt2 + " --method pfeife --json -o " + file);
  const json row = row_of("estimate " + kGpt2 + " --plan " + file + " --largest micro");
  EXPECT_EQ(row["stated"]["need_bytes"], metrics_at(kGpt2 + " --plan " + file)["peak_memory_bytes"]);
  EXPECT_GE(row["fits"], 2);
}

// The search's boundary: divisors of the 16 samples of a step.
TEST(Largest, OfTheBestPlans) {
  const std::string open = kGpt2 + " --open --set recompute=none --set 'usable=40 %' --set schedule=1f1b";
  const json answer = json::parse(answer_of("plan " + open + " --largest micro --json"));
  EXPECT_EQ(answer["searched"], true);
  const json& row = answer["devices"][0];
  const int largest = row["fits"];
  EXPECT_EQ(16 % largest, 0);
  EXPECT_FALSE(row["largest"]["plan"].get<std::string>().empty());
  EXPECT_EQ(row["largest"]["samples"], 16);
  EXPECT_EQ(panpipe(fmt::format("plan {} --set batch.micro={} --json", open, largest)).exit_code, 0);
  ASSERT_FALSE(row["next"].is_null());
  EXPECT_EQ(panpipe(fmt::format("plan {} --set batch.micro={} --json", open, row["next"]["value"].get<int>())).exit_code, 1);
}

// Each hint's need is that of the verb with the setting.
TEST(MemoryHints, AreWhatTheSettingGives) {
  const std::string one =
      kGpt2 +
      " --set 'parallel={data: 8}' --set schedule=1f1b --set framework=eager --set batch.micro=4 --set batch.microbatches=1";
  const json result = json::parse(answer_of("estimate --json " + one));
  ASSERT_EQ(result["metrics"]["fits"], false);
  ASSERT_FALSE(result["memory_hints"].empty());
  for (const json& hint : result["memory_hints"]) {
    const json with = metrics_at(one + " --set " + hint["setting"].get<std::string>());
    EXPECT_EQ(with["peak_memory_bytes"], hint["need_bytes"]) << hint;
    EXPECT_EQ(with["fits_how"], hint["fits_how"]) << hint;
    const auto need = result["metrics"]["peak_memory_bytes"].get<std::int64_t>();
    EXPECT_EQ(need - hint["need_bytes"].get<std::int64_t>(), hint["saved_bytes"]) << hint;
  }
  EXPECT_THAT(answer_of("estimate " + one), HasSubstr("memory: with recompute="));
  EXPECT_FALSE(json::parse(answer_of("estimate --json " + kGpt2)).contains("memory_hints"));
}

}  // namespace
}  // namespace panpipe::test
