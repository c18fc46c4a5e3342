// Weights that go round the ranks in both engines: equal times where no link is shared.
#include <gtest/gtest.h>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

TEST(TravellingWeights, BothEnginesAgreeOnIdleLinks) {
  for (const double per_byte : {1e-6, 20e-6, 200e-6}) {
    const test::TableCosts costs = test::flows_of(12, per_byte, per_byte);
    for (const int ranks : {2, 3, 4}) {
      const TaskGraph graph = test::lowered(test::scenario_of(ranks, 2 * ranks, "weipipe"), costs);
      const Timeline simulated = simulate(graph, test::paths_of_their_own(ranks), {Backend::FlowSolver, true, true});
      EXPECT_NEAR(simulated.step_time.base(), estimate(graph).step_time.base(), 1e-9) << ranks << " ranks, " << per_byte;
    }
  }
}

}  // namespace
}  // namespace panpipe::sim
