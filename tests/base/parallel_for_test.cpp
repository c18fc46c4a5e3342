#include "base/parallel_for.hpp"
#include "tests/fault.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace panpipe {
namespace {

TEST(ParallelFor, EveryPartOnceOnAWorkerThatExists) {
  for (const int threads : {0, 1, 2, 7})
    for (const std::size_t count : {0U, 1U, 2U, 100U}) {
      std::vector<std::atomic<int>> calls(count);
      std::atomic<bool> inside{true};
      parallel_for(count, threads, [&](std::size_t part, std::size_t worker) {
        ++calls[part];
        if (worker >= workers_for(count, threads)) inside = false;
      });
      for (const auto& times : calls) EXPECT_EQ(times, 1);
      EXPECT_TRUE(inside);
    }
  EXPECT_EQ(workers_for(3, 8), 3U);
  EXPECT_EQ(workers_for(8, 3), 3U);
  EXPECT_EQ(workers_for(0, 3), 1U);
  EXPECT_GE(workers_for(1000, 0), 1U);
}

TEST(ParallelFor, TheFirstPartsFaultIsThrownAndTheOthersStillRun) {
  std::atomic<int> calls{0};
  const auto work = [&](std::size_t part, std::size_t) {
    ++calls;
    if (part % 5 == 3) throw std::runtime_error(std::to_string(part));
  };
  EXPECT_EQ(test::fault_of<std::runtime_error>([&] { parallel_for(20, 4, work); }), "3");
  EXPECT_EQ(calls, 20);
}

}  // namespace
}  // namespace panpipe
