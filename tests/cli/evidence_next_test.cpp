// What to measure next, where something is known already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json answer(const std::string& arguments) { return json::parse(answer_of(arguments)); }

std::string scenario() {
  return write_file(temporary_folder() + "/job.yaml",
                    "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, nodes: 1}\n"
                    "workload: {model: gpt, layers: 24, hidden: 2048, heads: 16, sequence: 2048, vocabulary: 51200}\n"
                    "batch: {micro: 4, microbatches: 8}\nprecision: bf16\n"
                    "parallel: {tensor: 8, sequence_parallel: true}\ntrainer: megatron-core\n");
}

// After a log of the scenario: what gains nothing is not offered, another run of it is; what was left out is listed.
TEST(EvidenceNext, AfterALogItOffersAnotherRun) {
  const std::string job = scenario(), folder = temporary_folder();
  const double predicted = answer("estimate --json " + job)["metrics"]["step_time_s"];
  const auto log = [&](const std::string& name, double factor) {
    std::string text;
    for (int i = 1; i <= 12; ++i)
      text += "iteration " + std::to_string(i) +
              "/ 100 | elapsed time per iteration (ms): " + std::to_string(1000 * factor * predicted) + " | x\n";
    return write_file(folder + "/" + name, text);
  };
  const std::string call = job + " --evidence " + log("run.log", 1.02) + " --evidence " + log("wrong.log", 200);
  const json next = answer("evidence next --json " + call);
  EXPECT_THAT(next["left_out"][0]["file"].get<std::string>(), HasSubstr("wrong.log"));
  bool repeats = false;
  for (const json& piece : next["pieces"]) {
    const bool repeat = piece["what"] == "10 steps of the scenario itself, in another run";
    repeats = repeats || repeat;
    if (!repeat) {
      EXPECT_LE(piece["half_width_after"].get<double>(), next["half_width"].get<double>() - 0.005) << piece;
    }
  }
  EXPECT_TRUE(repeats);
  EXPECT_THAT(answer_of("evidence next " + call), HasSubstr("wrong.log (log): it lies outside"));
}

// The first is the narrowest as shown; other splits keep what else the scenario states of its own.
TEST(EvidenceNext, TheFirstIsTheNarrowest) {
  const json next = answer("evidence next --json " + scenario());
  double narrowest = 1;
  int splits = 0;
  for (const json& piece : next["pieces"]) {
    narrowest = std::min(narrowest, piece["half_width_after"].get<double>());
    for (const json& set : piece["set"]) {
      const auto key = set.get<std::string>();
      EXPECT_FALSE(key.starts_with("parallel=")) << key;
      splits += key.starts_with("parallel.") ? 1 : 0;
    }
  }
  EXPECT_GT(splits, 0);
  EXPECT_NEAR(next["pieces"][0]["half_width_after"].get<double>(), narrowest, 0.001);
}

}  // namespace
}  // namespace panpipe::test
