#include "costmodel/memory/caching_allocator.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace panpipe {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(CachingAllocator, SizesAreMultiplesOf512Bytes) {
  CachingAllocator allocator(false, 100 * kMiB);
  for (const auto& [bytes, counted] : {std::pair{1, 512}, {512, 1024}, {513, 2048}}) {
    ASSERT_TRUE(allocator.allocate(bytes));
    EXPECT_EQ(allocator.allocated(), counted);  // 512 each, and 1024 for 513
  }
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  EXPECT_EQ(*allocator.allocate(0), 0);
  EXPECT_EQ(allocator.allocated(), 2048);
}

// Up to 1 MiB: segments of 2 MiB. Below 10 MiB: of 20 MiB. From there: multiples of 2 MiB.
TEST(CachingAllocator, SegmentsFollowTheSizeOfTheirFirstBlock) {
  for (const auto& [bytes, reserved] : {std::pair{kMiB, 2 * kMiB},
                                        {kMiB + 1, 20 * kMiB},
                                        {10 * kMiB - 512, 20 * kMiB},
                                        {10 * kMiB, 10 * kMiB},
                                        {21 * kMiB + 1, 22 * kMiB}}) {
    CachingAllocator allocator(false, 100 * kMiB);
    ASSERT_TRUE(allocator.allocate(bytes));
    EXPECT_EQ(allocator.reserved(), reserved) << bytes;
  }
}

// 20 MiB hold 8 + 8, then 3; a second 8 needs another segment of 20.
TEST(CachingAllocator, BlocksShareASegmentUntilItIsFull) {
  CachingAllocator allocator(false, 100 * kMiB);
  for (const std::int64_t mib : {8, 8, 3}) ASSERT_TRUE(allocator.allocate(mib * kMiB));
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  ASSERT_TRUE(allocator.allocate(8 * kMiB));
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
}

// A rest of 1 MiB or less stays with the block: 19 of 20 MiB take 20.
TEST(CachingAllocator, ALargeBlockKeepsASmallRest) {
  CachingAllocator allocator(false, 100 * kMiB);
  const auto first = allocator.allocate(20 * kMiB);
  allocator.free(*first);
  ASSERT_TRUE(allocator.allocate(19 * kMiB));
  EXPECT_EQ(allocator.allocated(), 20 * kMiB);
}

// Neighbours merge: two of 9 in one segment, freed, make room for 18. In the middle of three used ones nothing merges.
TEST(CachingAllocator, NeighboursMerge) {
  CachingAllocator allocator(false, 100 * kMiB);
  const auto a = allocator.allocate(9 * kMiB), b = allocator.allocate(9 * kMiB);
  allocator.free(*a);
  allocator.free(*b);
  ASSERT_TRUE(allocator.allocate(18 * kMiB));
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
}

// Fragmentation: of eight blocks of 30 MiB every second one is freed: 120 MiB are unused, and 60 MiB need a segment of their own.
// The card has 280: the fifth segment of 60 does not fit until unused segments are given back.
TEST(CachingAllocator, AFullCardGivesUnusedSegmentsBack) {
  CachingAllocator allocator(false, 280 * kMiB);
  std::vector<CachingAllocator::Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(*allocator.allocate(30 * kMiB));
  for (int i = 0; i < 8; i += 2) allocator.free(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(allocator.reserved(), 240 * kMiB);
  ASSERT_TRUE(allocator.allocate(60 * kMiB));
  EXPECT_EQ(allocator.retries(), 1);
  EXPECT_EQ(allocator.reserved(), 180 * kMiB);  // 4 x 30 + 60
  EXPECT_EQ(allocator.peak_reserved(), 240 * kMiB);
  EXPECT_FALSE(allocator.allocate(101 * kMiB));  // 280 - 180
  EXPECT_TRUE(allocator.allocate(100 * kMiB));
}

// One segment of 20 MiB pages: what is freed next to its end grows, so that nothing is unused: 30 + 30 take three pages of 20.
TEST(CachingAllocator, ExpandableSegmentsGrow) {
  CachingAllocator allocator(true, 400 * kMiB);
  const auto a = allocator.allocate(30 * kMiB), b = allocator.allocate(30 * kMiB);
  EXPECT_EQ(allocator.reserved(), 60 * kMiB);
  allocator.free(*a);
  allocator.free(*b);
  ASSERT_TRUE(allocator.allocate(100 * kMiB));
  EXPECT_EQ(allocator.reserved(), 100 * kMiB);
  // Without them two unused segments of 30 stay next to one of 100.
  CachingAllocator apart(false, 400 * kMiB);
  const auto first = apart.allocate(30 * kMiB), second = apart.allocate(30 * kMiB);
  apart.free(*first);
  apart.free(*second);
  ASSERT_TRUE(apart.allocate(100 * kMiB));
  EXPECT_EQ(apart.reserved(), 160 * kMiB);
}

TEST(CachingAllocator, StreamsHaveTheirOwnBlocks) {
  CachingAllocator allocator(false, 100 * kMiB);
  allocator.free(*allocator.allocate(10 * kMiB, 0));
  ASSERT_TRUE(allocator.allocate(10 * kMiB, 1));
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
}

// Of 12 MiB and 3 of the same pool: a segment of 12, and one of 20 of which 17 are unused; the 12 are given back by
// empty_cache().
TEST(CachingAllocator, RecordsWhatItDoes) {
  CachingAllocator allocator(false, 100 * kMiB);
  std::vector<AllocatorEvent> events;
  allocator.record(&events);
  const auto large = *allocator.allocate(12 * kMiB), medium = *allocator.allocate(3 * kMiB, 1);
  allocator.free(large);
  std::vector<AllocatorSegment> segments = allocator.segments();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].size, 12 * kMiB);
  ASSERT_EQ(segments[0].blocks.size(), 1u);
  EXPECT_FALSE(segments[0].blocks[0].allocated);
  ASSERT_EQ(segments[1].blocks.size(), 2u);
  EXPECT_EQ(segments[1].stream, 1);
  EXPECT_EQ(segments[1].blocks[0].address, medium);
  EXPECT_TRUE(segments[1].blocks[0].allocated);
  EXPECT_EQ(segments[1].blocks[1].size, 17 * kMiB);
  allocator.release_unused();
  using enum AllocatorAction;
  const std::vector<std::pair<AllocatorAction, std::int64_t>> expected = {{TakeSegment, 12 * kMiB}, {Allocate, 12 * kMiB},
                                                                          {TakeSegment, 20 * kMiB}, {Allocate, 3 * kMiB},
                                                                          {Free, 12 * kMiB},        {GiveSegment, 12 * kMiB}};
  ASSERT_EQ(events.size(), expected.size());
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(std::pair(events[i].action, events[i].size), expected[i]) << i;
}

// 30 MiB take two pages of 20; what is unmapped is no segment any more.
TEST(CachingAllocator, RecordsPages) {
  CachingAllocator allocator(true, 400 * kMiB);
  std::vector<AllocatorEvent> events;
  allocator.record(&events);
  const auto block = *allocator.allocate(30 * kMiB);
  ASSERT_EQ(allocator.segments().size(), 1u);
  EXPECT_EQ(allocator.segments()[0].size, 40 * kMiB);
  EXPECT_TRUE(allocator.segments()[0].expandable);
  allocator.free(block);
  allocator.release_unused();
  EXPECT_TRUE(allocator.segments().empty());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].action, AllocatorAction::MapPages);
  EXPECT_EQ(events[0].size, 40 * kMiB);
  EXPECT_EQ(events[3].action, AllocatorAction::UnmapPages);
  EXPECT_EQ(events[3].size, 40 * kMiB);
}

// Whatever happens, bytes add up: allocated <= reserved <= capacity, and everything can be given back.
TEST(CachingAllocator, RandomSequencesAddUp) {
  for (const bool expandable : {false, true}) {
    std::mt19937 draw(expandable);
    CachingAllocator allocator(expandable, 600 * kMiB);
    std::vector<std::pair<CachingAllocator::Address, std::int64_t>> live;
    std::int64_t sum = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (live.empty() || draw() % 100 < 52) {
        const std::int64_t bytes = 512 * (1 + draw() % (draw() % 4 == 0 ? 100'000 : 3000));
        if (const auto block = allocator.allocate(bytes, static_cast<int>(draw() % 2))) {
          live.emplace_back(*block, bytes);
          sum += bytes;
        }
      } else {
        std::swap(live[draw() % live.size()], live.back());
        allocator.free(live.back().first);
        sum -= live.back().second;
        live.pop_back();
      }
      ASSERT_GE(allocator.allocated(), sum);
      ASSERT_LE(allocator.allocated(), sum + static_cast<std::int64_t>(live.size()) * kMiB);
      ASSERT_LE(allocator.allocated(), allocator.reserved());
      ASSERT_LE(allocator.reserved(), 600 * kMiB);
    }
    EXPECT_GT(allocator.retries(), 0);
    for (const auto& [address, bytes] : live) allocator.free(address);
    allocator.release_unused();
    EXPECT_EQ(allocator.allocated(), 0);
    EXPECT_EQ(allocator.reserved(), 0);
  }
}

}  // namespace
}  // namespace panpipe
