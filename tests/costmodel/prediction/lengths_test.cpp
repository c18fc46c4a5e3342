// Microbatches of unequal length of a model, from a scenario's text to its figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "costmodel/prediction/microbatch_order.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

std::string text_of(const std::string& batch, const std::string& extra = "", const std::string& degrees = "{pipeline: 2}",
                    const std::string& sequence = "") {
  return "panpipe: 1\ncluster: h100x8\nworkload: {model: llama, layers: 4, hidden: 1024, heads: 16, ffn: 2816, vocabulary: "
         "32000" +
         sequence + "}\nbatch: " + batch + "\nparallel: " + degrees + "\nprecision: bf16\nframework: flash-attn\n" + extra + "\n";
}

struct Predicted {
  Plan plan;
  Metrics metrics;
};

Predicted predicted(const std::string& text) {
  const Experiment experiment(parse_scenario(text, "s.yaml", "."));
  Predicted made{experiment.plan(""), {}};
  made.metrics = predict(experiment, made.plan).metrics;
  return made;
}

// A list of equal lengths is a sequence of that length.
TEST(Lengths, EqualOnesAreASequence) {
  for (const char* schedule : {"schedule: 1f1b", "schedule: zb-h1", "schedule: {name: 1f1b, offload: full}"}) {
    const Metrics one = predicted(text_of("{micro: 1, microbatches: 4}", schedule, "{pipeline: 2}", ", sequence: 512")).metrics;
    const Metrics listed = predicted(text_of("{micro: 1, lengths: [512, 512, 512, 512]}", schedule)).metrics;
    EXPECT_EQ(listed.step_time_s, one.step_time_s) << schedule;
    EXPECT_EQ(listed.peak_memory_bytes, one.peak_memory_bytes) << schedule;
    EXPECT_EQ(listed.mfu, one.mfu) << schedule;
  }
}

// Between a step of all short and one of all long microbatches; and a sequence of two samples takes less than one of one sample.
TEST(Lengths, AMixLiesBetween) {
  const Metrics shorter = predicted(text_of("{micro: 1, lengths: [512, 512, 512, 512]}")).metrics;
  const Metrics longer = predicted(text_of("{micro: 1, lengths: [4096, 4096, 4096, 4096]}")).metrics;
  const Metrics mixed = predicted(text_of("{micro: 1, lengths: [4096, 512, 4096, 512]}")).metrics;
  EXPECT_GT(mixed.step_time_s, shorter.step_time_s);
  EXPECT_LT(mixed.step_time_s, longer.step_time_s);
  EXPECT_GT(mixed.peak_memory_bytes, shorter.peak_memory_bytes);
  EXPECT_LE(mixed.peak_memory_bytes, longer.peak_memory_bytes);
  const Metrics packed = predicted(text_of("{micro: 1, lengths: [[2048, 2048], 512, [1024, 3072], 512]}")).metrics;
  EXPECT_LT(packed.step_time_s, mixed.step_time_s);
}

// Where the packed samples of all sequences are alike, they are those of batch.packed.
TEST(Lengths, SamplesOneByOneAreSharesOfThem) {
  const Metrics shares =
      predicted(text_of("{micro: 1, microbatches: 2, packed: {lengths: [1024, 3072]}}", "", "{pipeline: 2}", ", sequence: 4096"))
          .metrics;
  const Metrics listed = predicted(text_of("{micro: 1, lengths: [[1024, 3072], [3072, 1024]]}")).metrics;
  EXPECT_NEAR(listed.step_time_s, shares.step_time_s, 1e-9 * shares.step_time_s);
}

TEST(Lengths, FilesSharesAndSamplesAreLists) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("lengths.txt", "# a step\n1024\n256, 256\n\n  512 # the last\n");
  const auto lengths = [](const std::string& batch) {
    const Scenario scenario = parse_scenario(text_of(batch), "s.yaml", ".");
    std::vector<std::vector<int>> samples;
    for (const int length : scenario.lengths.of)
      samples.push_back(scenario.lengths.shapes[static_cast<std::size_t>(length)].samples);
    return std::pair(samples, scenario.degrees.microbatches);
  };
  using Samples = std::vector<std::vector<int>>;
  EXPECT_EQ(lengths("{micro: 1, lengths: " + file + "}"), std::pair(Samples({{1024}, {256, 256}, {512}}), 3));
  // Of 6: 3, 2 and 1, evenly spread.
  const auto [shared, count] =
      lengths("{micro: 1, microbatches: 6, lengths: {lengths: [64, 32, 16], shares: [50 %, 30 %, 20 %]}}");
  EXPECT_EQ(count, 6);
  EXPECT_EQ(std::count(shared.begin(), shared.end(), std::vector{64}), 3);
  EXPECT_EQ(std::count(shared.begin(), shared.end(), std::vector{32}), 2);
  EXPECT_EQ(std::count(shared.begin(), shared.end(), std::vector{16}), 1);
  const auto [packed, sequences] =
      lengths("{micro: 1, lengths: {samples: [60, 50, 40, 30, 20], tokens: 100, packing: first-fit}}");
  EXPECT_EQ(packed, Samples({{60, 40}, {50, 30, 20}}));
  EXPECT_EQ(sequences, 2);
}

// The order found is a permutation, is not slower than the one given, and is kept in a plan's file.
TEST(Lengths, TheSearchedOrderIsNoSlowerAndIsKept) {
  const std::string lengths = "{micro: 1, lengths: [8192, 512, 512, 4096, 512, 512, 8192, 512], order: ";
  for (const char* schedule : {"schedule: 1f1b", "schedule: zb-h1", "schedule: interleaved-1f1b"}) {
    const std::string degrees = "{pipeline: 2}";
    const Predicted given = predicted(text_of(lengths + "given}", schedule, degrees));
    const std::string text = text_of(lengths + "searched}", schedule, degrees);
    const Predicted searched = predicted(text);
    EXPECT_LE(searched.metrics.step_time_s, given.metrics.step_time_s) << schedule;
    EXPECT_TRUE(std::is_permutation(searched.plan.lengths.begin(), searched.plan.lengths.end(), given.plan.lengths.begin()));
    EXPECT_EQ(predicted(text).plan.lengths, searched.plan.lengths) << schedule;
    const test::TemporaryFolder folder;
    const Experiment experiment(parse_scenario(text, "s.yaml", "."));
    const std::string file = folder.write("plan.yaml", to_yaml(searched.plan, experiment.model.workload(0)));
    EXPECT_EQ(experiment.plan(file).lengths, searched.plan.lengths) << schedule;
    const Experiment other(
        parse_scenario(text_of("{micro: 1, lengths: [8192, 512, 512, 512, 512, 512, 8192, 512]}", schedule), "s", "."));
    EXPECT_THROW(other.plan(file), InputError);
  }
}

}  // namespace
}  // namespace panpipe
