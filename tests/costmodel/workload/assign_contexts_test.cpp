// Samples assigned to groups of ranks with context degrees of their own.
#include "costmodel/workload/assign_contexts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace panpipe {
namespace {

using Rows = std::vector<std::vector<std::vector<int>>>;  // samples of a rank's slots

Rows rows_of(const ContextSlots& assigned) {
  Rows rows;
  for (std::size_t i = 0; i < assigned.of.size(); ++i) {
    if (i % static_cast<std::size_t>(assigned.slots) == 0) rows.emplace_back();
    rows.back().push_back(assigned.of[i].samples);
  }
  return rows;
}

TEST(AssignContexts, ADegreeHoldsWhatARankOfTheLongestHolds) {
  EXPECT_EQ(context_degree(800, 800, 4), 4);
  EXPECT_EQ(context_degree(401, 800, 4), 4);
  EXPECT_EQ(context_degree(400, 800, 4), 2);
  EXPECT_EQ(context_degree(201, 800, 4), 2);
  EXPECT_EQ(context_degree(200, 800, 4), 1);
}

// All four ranks share 800 tokens in one slot; in the other each has a sample of its own, though two would fit.
TEST(AssignContexts, ShortSamplesRunSideBySide) {
  const ContextSlots assigned = assign_contexts({100, 800, 100, 100, 100}, 4, 4, 0, {});
  EXPECT_EQ(rows_of(assigned), Rows(4, {{800}, {100}}));
}

// 390 tokens over two ranks are padded to a multiple of 4. 800 / 4 = 400 / 2 = 200 tokens a rank; the last slot has 200 and 150.
TEST(AssignContexts, GroupsOfLikeWorkShareASlot) {
  const ContextSlots assigned = assign_contexts({800, 390, 400, 200, 150}, 4, 4, 0, {});
  EXPECT_EQ(rows_of(assigned), (Rows{{{800}, {400}, {392}}, {{800}, {400}, {392}}, {{800}, {200}, {}}, {{800}, {150}, {}}}));
}

TEST(AssignContexts, TooFewSlotsAreRefused) {
  EXPECT_EQ(assign_contexts({800, 800, 800}, 4, 4, 2, {}).slots, 0);
  EXPECT_EQ(assign_contexts({800, 800, 800}, 4, 4, 4, {}).slots, 4);  // one stays idle
}

// Any samples: each is in one group; a group begins at a multiple of its ranks, which hold no more than a rank of the longest.
TEST(AssignContexts, EverySampleHasOneGroup) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int most = 1 << (1 + trial % 3), ranks = most << (trial % 2);
    std::vector<int> lengths(1 + random() % 40);
    for (int& length : lengths) length = 1 + static_cast<int>(random() % 1000);
    const ContextSlots assigned = assign_contexts(lengths, most, ranks, 0, {1, 0.01});
    ASSERT_GT(assigned.slots, 0);
    int longest = 0;
    for (const SequenceShape& shape : assigned.of) longest = std::max(longest, shape.tokens());
    const Rows rows = rows_of(assigned);
    std::vector<int> found;
    for (int slot = 0; slot < assigned.slots; ++slot)
      for (int rank = 0; rank < ranks;) {
        const SequenceShape shape{rows[rank][slot]};
        const int degree = context_degree(shape.tokens(), longest, most);
        EXPECT_EQ(rank % degree, 0);
        EXPECT_LE(shape.tokens() / degree, longest / most);
        for (int member = 0; member < degree; ++member) EXPECT_EQ(rows[rank + member][slot], shape.samples);
        found.insert(found.end(), shape.samples.begin(), shape.samples.end());
        rank += degree;
      }
    ASSERT_EQ(found.size(), lengths.size());
    std::sort(found.begin(), found.end());
    std::sort(lengths.begin(), lengths.end());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_GE(found[i], lengths[i]);
      EXPECT_LT(found[i], lengths[i] + 2 * most);
    }
  }
}

}  // namespace
}  // namespace panpipe
