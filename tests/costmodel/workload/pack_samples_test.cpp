// Packing against sequences by hand, and its properties over random samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "costmodel/workload/pack_samples.hpp"

namespace panpipe {
namespace {

double heaviest(const std::vector<SequenceShape>& shapes, const SequenceWork& work) {
  double most = 0;
  for (const SequenceShape& shape : shapes) most = std::max(most, work.of(shape));
  return most;
}

std::vector<int> samples_of(const std::vector<SequenceShape>& shapes) {
  std::vector<int> all;
  for (const SequenceShape& shape : shapes) all.insert(all.end(), shape.samples.begin(), shape.samples.end());
  std::sort(all.begin(), all.end());
  return all;
}

// The longest first: 6 | 6 5 does not fit, 5 opens a second, 4 fits behind 6, 3 behind 5, 2 behind 5 3.
TEST(PackSamples, FirstFitByHand) {
  const auto shapes = pack_samples({2, 6, 3, 5, 4}, 10, Packing::FirstFit, {}, 0, 1);
  EXPECT_EQ(shapes, (std::vector<SequenceShape>{{{6, 4}}, {{5, 3, 2}}}));
  // An even number of sequences for two replicas: three sequences become four.
  EXPECT_EQ(pack_samples({8, 8, 5, 5}, 10, Packing::FirstFit, {}, 0, 2).size(), 4U);
}

// Tokens and squares in two sequences of at most 16 tokens. First-fit: 8 4 4 | 4 4, of which the first takes 16 + 64 + 32. Of
// neighbours 8 | 4 4 4 4 is best, with 8 + 64 and 16 + 64.
TEST(PackSamples, SquaresDecideWhereTokensDoNot) {
  const SequenceWork work{1, 1};
  EXPECT_DOUBLE_EQ(heaviest(pack_samples({8, 4, 4, 4, 4}, 16, Packing::FirstFit, work, 0, 1), work), 16 + 64 + 32);
  EXPECT_DOUBLE_EQ(heaviest(pack_samples({8, 4, 4, 4, 4}, 16, Packing::Sorted, work, 0, 1), work), 80);
  EXPECT_DOUBLE_EQ(heaviest(pack_samples({8, 4, 4, 4, 4}, 16, Packing::Balanced, work, 0, 1), work), 80);
}

TEST(PackSamples, NothingIsLostAndNothingIsTooLong) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> samples;
    for (int k = 0; k < 40; ++k) samples.push_back(1 + static_cast<int>(random() % (random() % 4 == 0 ? 1000 : 100)));
    std::vector<int> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    const SequenceWork work{1, 0.01};
    const std::size_t count = pack_samples(samples, 1000, Packing::FirstFit, work, 0, 2).size();
    EXPECT_EQ(count % 2, 0U);
    double weight = 1e300;
    for (const Packing packing : {Packing::FirstFit, Packing::Sorted, Packing::Balanced}) {
      const auto shapes = pack_samples(samples, 1000, packing, work, static_cast<int>(count), 1);
      if (packing == Packing::Sorted && shapes.empty()) continue;  // neighbours need not fit into so few
      ASSERT_EQ(shapes.size(), count);
      EXPECT_EQ(samples_of(shapes), sorted);
      for (const SequenceShape& shape : shapes) EXPECT_LE(shape.tokens(), 1000);
      weight = std::min(weight, heaviest(shapes, work));
      if (packing == Packing::Balanced) {
        EXPECT_DOUBLE_EQ(heaviest(shapes, work), weight);  // no worse than the others
      }
    }
  }
}

// The light one of each pair follows its heavy one: 9 + 1 and 8 + 2 for two replicas.
TEST(PackSamples, ReplicasHaveAboutTheSameWork) {
  const auto shapes = pack_samples({9, 8, 2, 1}, 9, Packing::FirstFit, {}, 4, 2);
  EXPECT_EQ(shapes, (std::vector<SequenceShape>{{{9}}, {{1}}, {{8}}, {{2}}}));
}

// The heaviest, a single sample, cannot be lighter; the others still share evenly: 4 + 2 and 3 + 3 of work 6 each.
TEST(PackSamples, SequencesBehindTheHeaviestAreBalancedToo) {
  const auto shapes = pack_samples({10, 4, 3, 3, 2}, 10, Packing::Balanced, {}, 3, 1);
  ASSERT_EQ(shapes.size(), 3U);
  EXPECT_EQ(shapes[0].tokens(), 10);
  EXPECT_EQ(shapes[1].tokens(), 6);
  EXPECT_EQ(shapes[2].tokens(), 6);
}

TEST(PackSamples, TooFewSequencesAreNone) {
  EXPECT_TRUE(pack_samples({8, 8, 8}, 10, Packing::Balanced, {}, 2, 1).empty());
  EXPECT_TRUE(pack_samples({8, 8}, 10, Packing::FirstFit, {}, 3, 1).empty());  // more sequences than samples
}

}  // namespace
}  // namespace panpipe
