#include "costmodel/memory/allocator_settings.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "costmodel/memory/caching_allocator.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kMebi = std::int64_t{1} << 20;

TEST(AllocatorSettings, AreReadAsPyTorchWritesThem) {
  EXPECT_EQ(parse_allocator_settings(""), AllocatorSettings{});
  const AllocatorSettings read = parse_allocator_settings(
      "expandable_segments:True, max_split_size_mb:128,max_non_split_rounding_mb:30,large_segment_size_mb:64,"
      "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9,pinned_num_register_threads:8");
  EXPECT_TRUE(read.expandable_segments);
  EXPECT_EQ(read.max_split_size, 128 * kMebi);
  EXPECT_EQ(read.max_unsplit_rest, 30 * kMebi);
  EXPECT_EQ(read.large_segment_size, 64 * kMebi);
  EXPECT_EQ(read.garbage_collection_threshold, 0.6);
  EXPECT_EQ(read.per_process_fraction, 0.9);
}

// Of a power of two into 4 parts: 5 MiB and a byte are rounded to 6, 4 MiB stay, 9 MiB become 10.
TEST(AllocatorSettings, PowersOfTwoAreDivided) {
  CachingAllocator allocator(parse_allocator_settings("roundup_power2_divisions:[1:4,2:4,4:4,8:4,16:2,>:8]"), 1000 * kMebi);
  std::int64_t sum = 0;
  for (const auto& [asked, taken] : {std::pair{5 * kMebi + 1, 6 * kMebi},
                                     {4 * kMebi, 4 * kMebi},
                                     {9 * kMebi, 10 * kMebi},
                                     {17 * kMebi, 24 * kMebi},  // of 16, halves
                                     {33 * kMebi, 36 * kMebi},  // of 32, eighths
                                     {1, 512},
                                     {1300, 1536},          // below 4 x 512 in steps of 512
                                     {3 * 1024, 3 * 1024},  // of 2048, quarters of 512
                                     {4097, 5120}}) {       // of 4096, quarters of 1024
    ASSERT_TRUE(allocator.allocate(asked));
    EXPECT_EQ(allocator.allocated() - sum, taken) << asked;
    sum = allocator.allocated();
  }
}

TEST(AllocatorSettings, WhatIsWrongIsNamed) {
  for (const auto& [text, word] : {std::pair{"expandable_segment:True", "did you mean 'expandable_segments'"},
                                   {"expandable_segments:true", "True or False"},
                                   {"max_split_size_mb:20", "from 21"},
                                   {"max_split_size_mb:1e99", "whole number"},
                                   {"garbage_collection_threshold:1.5", "up to 1"},
                                   {"roundup_power2_divisions:3", "power of two"},
                                   {"roundup_power2_divisions:[64:8", "ends with ]"},
                                   {"roundup_power2_divisions:[64]", "PARTS"},
                                   {"backend:cudaMallocAsync", "native"},
                                   {"expandable_segments", "has no value"}}) {
    try {
      parse_allocator_settings(text);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace panpipe
