#include "base/index_ranges.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace panpipe {
namespace {

using Indices = std::vector<int>;

Indices blocks(int count, int length, int distance, int first = 0) {
  Indices indices;
  for (int b = 0; b < count; ++b)
    for (int i = 0; i < length; ++i) indices.push_back(first + b * distance + i);
  return indices;
}

TEST(IndexRanges, NeighboursAreOneRange) {
  EXPECT_EQ(ranges_text({}), "none");
  EXPECT_EQ(ranges_text({7}), "7");
  EXPECT_EQ(ranges_text({0, 1}), "0-1");
  EXPECT_EQ(ranges_text({0, 8, 9, 10, 11, 12, 13, 14, 15}), "0, 8-15");
  EXPECT_EQ(ranges_text({3, 1, 2, 1}), "1-3");  // in ascending order, each once
  Indices many(5000);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(ranges_text(many), "0-4999");
}

TEST(IndexRanges, WhatRepeatsAtEqualDistancesIsLeftOut) {
  EXPECT_EQ(ranges_text({0, 8, 16}), "0, 8, 16");  // three are shorter written out
  EXPECT_EQ(ranges_text(blocks(8, 1, 8)), "0, 8 ... 56");
  EXPECT_EQ(ranges_text(blocks(8, 8, 64)), "0-7, 64-71 ... 448-455");
  Indices two = blocks(4, 1, 2), more = blocks(4, 2, 10, 100);
  two.insert(two.end(), more.begin(), more.end());
  EXPECT_EQ(ranges_text(two), "0, 2 ... 6, 100-101, 110-111 ... 130-131");
  EXPECT_EQ(ranges_text({0, 2, 4, 6, 7}), "0, 2, 4, 6-7");  // the fourth is longer than the others
}

TEST(IndexRanges, NoMorePiecesThanAskedForAreShown) {
  const Indices uneven = {0, 2, 5, 9, 14, 15};
  EXPECT_EQ(ranges_text(uneven), "0, 2, 5, 9, 14-15");
  EXPECT_EQ(ranges_text(uneven, 5), "0, 2, 5, 9, 14-15");
  EXPECT_EQ(ranges_text(uneven, 2), "0, 2 and 4 more");
}

TEST(IndexRanges, UnusedDevicesAreCountedAndNamed) {
  EXPECT_EQ(unused_indices({0, 2}, 4), (Indices{1, 3}));
  EXPECT_EQ(unused_indices({}, 2), (Indices{0, 1}));
  EXPECT_EQ(unused_devices_text({}, 8), "");
  EXPECT_EQ(unused_devices_text(unused_indices({0, 1, 2}, 8), 8), "5 of 8 devices are not used: 3-7");
  EXPECT_EQ(unused_devices_text({2}, 3), "1 of 3 devices is not used: 2");
}

}  // namespace
}  // namespace panpipe
