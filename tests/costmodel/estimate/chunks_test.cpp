// Products that overlap the collectives next to them, chunk by chunk: steps by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/chunked.hpp"

namespace panpipe {
namespace {

using test::step;

// One unit: forward of p seconds with a collective of c in n chunks, then 1 s; no gradients.
TEST(Chunks, TakeTheSlowerOfBothButForOneChunk) {
  for (const int n : {2, 4, 8})
    for (const double p : {1.0, 4.0})
      for (const double c : {0.5, 4.0, 9.0}) {
        const Scenario scenario = test::scenario_of(1, 1, "1f1b", 1, 1);
        const double gather = p / n + (n - 1) * std::max(p / n, c / (n - 1));
        EXPECT_NEAR(step(scenario, test::chunked(test::Chunked::Gather, n, p, c)), gather + 1, 1e-9) << n << " " << p << " " << c;
        const double scatter = p / n + (n - 1) * std::max(p / n, c / n) + c / n;
        EXPECT_NEAR(step(scenario, test::chunked(test::Chunked::Scatter, n, p, c)), scatter + 1, 1e-9)
            << n << " " << p << " " << c;
      }
}

// Never longer than one behind the other, never shorter than either.
TEST(Chunks, LieBetweenBothAndTheLonger) {
  for (const auto kind : {test::Chunked::Gather, test::Chunked::Scatter})
    for (int n = 2; n < 10; ++n) {
      const double time = step(test::scenario_of(1, 1, "1f1b", 1, 1), test::chunked(kind, n, 3, 2)) - 1;
      EXPECT_LT(time, 5) << n;
      EXPECT_GE(time, (kind == test::Chunked::Gather ? 3 : 3 + 2.0 / n) - 1e-9) << n;  // the last part of a scatter is exposed
    }
}

// A fifth of the overlapped time is lost: a chunk of 1 s with a part of 1 s or more takes 1.25 s. Gather of 9 s in 3 parts and 4
// chunks: the collectives hide that, 9 s and the last chunk, alone; of 3 s: 3 chunks of 1.2 s with parts of 1 s, and the last.
TEST(Chunks, SlowTheProductThatOverlapsThem) {
  const Scenario scenario = test::scenario_of(1, 1, "1f1b", 1, 1);
  const auto slowed = [&](double c) {
    auto costs = test::chunked(test::Chunked::Gather, 4, 4, c);
    costs.slowdown = 0.2;
    return step(scenario, costs) - 1;
  };
  EXPECT_NEAR(slowed(9), 9 + 1, 1e-9);
  EXPECT_NEAR(slowed(3), 3 * 1.2 + 1, 1e-9);
}

}  // namespace
}  // namespace panpipe
