// A vocabulary that is cut over the ranks of a pipeline: losses, gradients and checkpoints of three steps equal one process's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

std::string with_words(std::string scenario, const std::string& words) {
  return scenario.replace(scenario.find("vocabulary: 48"), 14, "vocabulary: " + words);
}

std::string cut(const std::string& family, int barriers = 1) {
  return fmt::format("schedule: {{name: {}, vocabulary: stages, vocabulary_barriers: {}}}\n", family, barriers);
}

// The tied embedding of 48 words; and 50, which 2 ranks share with 25 rows each, but 4 ranks pad to 512, so that three of them
// hold no word at all.
TEST(VocabularyParts, EveryOrderEqualsOneProcess) {
  for (const char* words : {"48", "50"}) {
    const Trained one = train(with_words(small_gpt(1, 1, 4, kSgd), words));
    ASSERT_EQ(one.losses.size(), 3u);
    for (const int barriers : {1, 2})
      for (const auto& [family, pipeline, data] : {std::tuple("1f1b", 2, 1),
                                                   {"1f1b", 4, 1},
                                                   {"1f1b", 2, 2},
                                                   {"interleaved-1f1b", 2, 1},
                                                   {"1f1b-v", 2, 1},
                                                   {"v-half", 2, 1},
                                                   {"v-min", 2, 1}}) {
        SCOPED_TRACE(fmt::format("{} words, {} on {} x {}, barriers {}", words, family, pipeline, data, barriers));
        expect_equal(train(with_words(small_gpt(pipeline, data, 4 / data, kSgd + cut(family, barriers)), words)), one);
      }
  }
}

// A head with rows of its own; and ZeRO 1, whose replicas update the rows of embedding and head each.
TEST(VocabularyParts, AnUntiedHeadHasRowsOfItsOwn) {
  const std::string clipped = kSgd + "training: {clip_gradients: 0.5}\n";
  const std::string untied = "48, tied_embedding: false";
  const Trained one = train(with_words(small_gpt(1, 1, 4, clipped), untied));
  for (const int barriers : {1, 2})
    expect_equal(train(with_words(small_gpt(2, 1, 4, clipped + cut("1f1b", barriers)), untied)), one);
  std::string divided = with_words(small_gpt(2, 2, 2, clipped + cut("1f1b")), untied);
  divided.replace(divided.find("data: 2}"), 8, "data: 2, zero: 1}");
  expect_equal(train(divided), one);
}

// 128 samples of 8 tokens below 48.
void write_ids(const Folder& folder) {
  std::string bytes;
  for (int i = 0; i <= 8 * 128; ++i) bytes += {static_cast<char>((5 * i * i + 3 * i) % 48), '\0'};
  folder.write("ids", bytes);
}

// The training of any degrees goes on from any others: a checkpoint holds whole embeddings.
TEST(VocabularyParts, CheckpointsAreThoseOfOneProcess) {
  const std::string whole = small_gpt(1, 1, 4, kSgd), parts = small_gpt(2, 1, 4, kSgd + cut("1f1b"));
  const std::string of_four = small_gpt(4, 1, 4, kSgd + cut("1f1b", 2));
  const auto expected = resumed(whole, whole);
  expect_close(resumed(whole, parts), expected, 2e-5);
  expect_close(resumed(parts, whole), expected, 2e-5);
  expect_close(resumed(parts, of_four), expected, 2e-5);
}

// The weights of a checkpoint, whole ones, are read as rows.
TEST(VocabularyParts, StartsFromWeights) {
  const Folder folder;
  const std::string first = folder.write("first.yaml", small_gpt(1, 1, 4, kSgd));
  ASSERT_EQ(run_threads(first, with_checkpoints(first, 2, folder.file("ck"))).error(), "");
  const std::string weights = "48, weights: " + step_folder(folder.file("ck"), 2);
  const Trained one = train(with_words(small_gpt(1, 1, 4, kSgd), weights));
  expect_equal(train(with_words(small_gpt(2, 1, 4, kSgd + cut("v-half")), weights)), one);
}

TEST(VocabularyParts, EvaluatesAndGoesOn) {
  const Folder folder;
  write_ids(folder);
  const std::string data = kSgd + "data: {tokens: ids, held_out: 25 %}\ntraining: {evaluate: {every: 1, steps: 2}}\n";
  const auto one = metrics_of(folder, small_gpt(1, 1, 4, data), 2);
  ASSERT_EQ(one.size(), 2u);
  for (const char* family : {"1f1b", "interleaved-1f1b", "v-min"})
    for (const int barriers : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, barriers {}", family, barriers));
      const auto parts = metrics_of(folder, small_gpt(2, 2, 2, data + cut(family, barriers)), 2);
      ASSERT_EQ(parts.size(), 2u);
      for (std::size_t s = 0; s < 2; ++s)
        for (const char* key : {"loss", "validation_loss", "gradient_norm"})
          EXPECT_NEAR(parts[s].at(key).get<double>(), one[s].at(key).get<double>(), 1e-4) << key;
    }
}

// Sums of the parts are rounded to bf16 once more, by 2^-9 of a gradient.
TEST(VocabularyParts, TrainsInTwoBytes) {
  const std::string mixed = kSgd + "precision: bf16\n";
  const Trained one = train(small_gpt(1, 1, 4, mixed));
  for (const int barriers : {1, 2}) {
    const Trained parts = train(small_gpt(2, 1, 4, mixed + cut("1f1b", barriers)));
    ASSERT_EQ(parts.losses.size(), 3u);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(parts.losses[s], one.losses[s], 2e-3 * one.losses[s]);
    expect_close(parts.gradients, one.gradients, 2e-2);
  }
}

// fp32 bytes of a layer of width 16: 4 (12 x 16^2 + 13 x 16) = 13120; of 8 positions 512; with their numbers 64; of the last norm
// 128; of 4096 / 2 rows of 16: 131072.
TEST(VocabularyParts, RanksHoldTheirRowsAlone) {
  const Trained trained = train(with_words(small_gpt(2, 1, 4, kSgd + cut("1f1b") + "partition: [h.1]\n"), "4096"));
  const auto parameters = [&](std::size_t device) {
    for (const MemoryPart& part : trained.timeline.devices.at(device).static_parts)
      if (part.use == MemoryUse::Parameters) return part.bytes.base();
    return std::int64_t{0};
  };
  EXPECT_EQ(parameters(0), 13120 + 512 + 64 + 131072);
  EXPECT_EQ(parameters(1), 13120 + 128 + 131072);
}

// Every pass and every exchange of the prediction was measured, under its name, and no other.
TEST(VocabularyParts, TimelinesHaveThePredictedActions) {
  for (const int barriers : {1, 2}) {
    const std::string scenario = small_gpt(2, 1, 4, kSgd + cut("1f1b", barriers));
    const Experiment experiment(parse_scenario(with_rates(scenario), "s.yaml", "."));
    const Timeline predicted = estimate(lower(experiment.scenario, experiment.plan(""), experiment.model));
    const auto actions = [](const Timeline& timeline) {
      std::multiset<std::tuple<int, Lane, std::string, std::string>> found;
      for (const Span& span : timeline.spans)
        if (span.action.is_vocabulary()) found.emplace(span.device, span.lane, to_text(span.action), span.label);
      return found;
    };
    const Timeline run = train(scenario).timeline;
    EXPECT_EQ(actions(run), actions(predicted));
    for (const Span& span : run.spans) {
      if (span.lane == Lane::Compute && span.action.kind == ActionKind::S) {
        EXPECT_GT(span.waiting, Duration(0)) << "waiting for the hidden state is no work of S";
      }
    }
    // 2 ranks, 4 microbatches, 4 passes and 5 exchanges.
    EXPECT_EQ(actions(predicted).size(), 2u * 4u * 9u);
  }
}

TEST(VocabularyParts, RefusesWhatDividesItAgain) {
  const Folder folder;
  std::string divided = small_gpt(2, 2, 2, "optimizer: adam\n" + cut("1f1b"));
  divided.replace(divided.find("data: 2}"), 8, "data: 2, zero: 2}");
  EXPECT_NE(error_of_step(folder, divided).find("ZeRO 2 and 3"), std::string::npos);
}

}  // namespace
}  // namespace panpipe::exec
