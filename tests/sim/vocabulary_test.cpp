// A vocabulary that is cut over all ranks in both engines: equal times where no link is shared, longer exchanges where one is.
#include <gtest/gtest.h>

#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

Scenario scenario_with(int pipeline, const std::string& family, const std::string& barriers, int data) {
  Scenario scenario = test::scenario_of(pipeline, 2 * pipeline, family, 1, data);
  scenario.schedule.options = {{"vocabulary", "stages"}, {"vocabulary_barriers", barriers}};
  return scenario;
}

TEST(VocabularyShares, BothEnginesAgreeOnIdleLinks) {
  const test::TableCosts costs = test::flows_of(12, 20e-6, 20e-6);
  for (const std::string family : {"1f1b", "interleaved-1f1b", "v-half"})
    for (const std::string barriers : {"1", "2"})
      for (const int data : {1, 2}) {
        const TaskGraph graph = test::lowered(scenario_with(4, family, barriers, data), costs);
        const Timeline simulated = simulate(graph, test::paths_of_their_own(4 * data), {Backend::FlowSolver, true, true});
        EXPECT_NEAR(simulated.step_time.base(), estimate(graph).step_time.base(), 1e-9)
            << family << ", barriers " << barriers << ", data " << data;
      }
}

}  // namespace
}  // namespace panpipe::sim
