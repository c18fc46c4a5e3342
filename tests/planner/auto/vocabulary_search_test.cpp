// A vocabulary cut over the stages as a choice of the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "planner/candidate.hpp"
#include "planner/planner.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

// 8 layers of width 2048 over 4 GPUs with NVLink. The head's product is that of words / (12 x 2048 + sequence) layers: of a
// tenth of a layer for 2048 words, and of ten for 262144.
Scenario four_gpus(int words, const std::string& schedule, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(
      fmt::format(
          "panpipe: 1\ncluster: {{file: clusters/dgx-a100-80g.yaml, devices_per_node: 4}}\n"
          "workload: {{model: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 16, ffn: 8192, vocabulary: {}, sequence: "
          "2048}}\nbatch: {{micro: 1, microbatches: 16}}\nprecision: bf16\nframework: megatron-core\n"
          "parallel: {{pipeline: 4, tensor: 1, data: 1}}\nrecompute: none\nschedule: {}\n",
          words, schedule),
      "four.yaml", ".", overrides);
}

Answer answer_of(const Scenario& scenario, Method method = Method::Auto) {
  SearchOptions options;
  options.method = method;
  return search(Experiment(scenario), options);
}

bool is_cut(const Candidate& candidate) {
  for (const auto& option : candidate.schedule_options)
    if (option == std::pair<std::string, std::string>("vocabulary", "stages")) return true;
  return false;
}

TEST(VocabularySearch, CutsALargeVocabularyAndNotASmallOne) {
  for (const Method method : {Method::Auto, Method::Pfeife}) {
    const Answer small = answer_of(four_gpus(2048, "{name: auto, vocabulary: auto}"), method);
    ASSERT_FALSE(small.candidates.empty()) << small.reason;
    EXPECT_FALSE(is_cut(small.candidates.front())) << small.candidates.front().summary;
    EXPECT_THAT(small.notes, Contains(HasSubstr("vocabulary cut over the stages: ")));
    const Answer large = answer_of(four_gpus(262144, "{name: auto, vocabulary: auto}"), method);
    ASSERT_FALSE(large.candidates.empty()) << large.reason;
    EXPECT_TRUE(is_cut(large.candidates.front())) << large.candidates.front().summary;
  }
}

// What a cut plan states gives its step again.
TEST(VocabularySearch, TheSettingsGiveThePlan) {
  const Answer answer = answer_of(four_gpus(262144, "{name: auto, vocabulary: auto}"));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  const Candidate& best = answer.candidates.front();
  testing::expect_again(best, [](const auto& set) { return four_gpus(262144, "auto", set); });
}

// With learned positions the first unit of the whole model is two of the cut one.
TEST(VocabularySearch, UnitsAreThoseOfTheCutModel) {
  const auto gpt = [](const std::string& schedule, const std::vector<std::string>& overrides) {
    return parse_scenario(
        "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, devices_per_node: 4}\n"
        "workload: {model: gpt, layers: 8, hidden: 2048, heads: 16, vocabulary: 262144, sequence: 2048}\n"
        "batch: {micro: 1, microbatches: 16}\nprecision: bf16\nframework: megatron-core\n"
        "parallel: {pipeline: 4, tensor: 1, data: 1}\nrecompute: none\nschedule: " +
            schedule + "\n",
        "gpt.yaml", ".", overrides);
  };
  const Answer answer = answer_of(gpt("{name: auto, vocabulary: auto}", {}));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  ASSERT_TRUE(is_cut(answer.candidates.front())) << answer.candidates.front().summary;
  testing::expect_again(answer.candidates.front(), [&](const auto& set) { return gpt("auto", set); });
}

// A loss that no ranks can share is a note; the plans without such a cut are the answer.
TEST(VocabularySearch, WhatCannotBeCutIsANote) {
  const Answer answer = answer_of(parse_scenario(
      "panpipe: 1\ncluster: {file: clusters/dgx-a100-80g.yaml, devices_per_node: 4}\nworkload: {model: bert-base}\n"
      "batch: {micro: 1, microbatches: 8}\nprecision: bf16\nparallel: {pipeline: 4, tensor: 1, data: 1}\nrecompute: none\n"
      "schedule: {name: auto, vocabulary: auto}\n",
      "bert.yaml", "."));
  EXPECT_FALSE(answer.candidates.empty()) << answer.reason;
  EXPECT_THAT(answer.notes, Contains(HasSubstr("its loss is not one cross entropy")));
}

// A stated family stays; and a schedule without the key is searched as before.
TEST(VocabularySearch, KeepsWhatIsStated) {
  const Answer stated = answer_of(four_gpus(262144, "{name: 1f1b, vocabulary: auto}"));
  ASSERT_FALSE(stated.candidates.empty()) << stated.reason;
  EXPECT_TRUE(is_cut(stated.candidates.front()));
  for (const Candidate& candidate : stated.candidates) EXPECT_EQ(candidate.schedule, "1f1b");
  for (const Candidate& candidate : answer_of(four_gpus(262144, "auto")).candidates) EXPECT_FALSE(is_cut(candidate));
}

// Megatron-LM has no such passes.
TEST(VocabularySearch, TrainersAreAsked) {
  const Answer answer = answer_of(four_gpus(262144, "{name: auto, vocabulary: auto}", {"trainer=megatron-core"}));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  EXPECT_FALSE(is_cut(answer.candidates.front()));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("does not have it")));
}

}  // namespace
}  // namespace panpipe::planner
