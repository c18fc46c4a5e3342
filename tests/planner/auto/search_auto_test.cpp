#include <gtest/gtest.h>

#include "planner/methods.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {
TEST(SearchAuto, Finds) {
  const Experiment experiment(testing::four_cards());
  const Answer answer = search_auto(experiment, {});
  ASSERT_FALSE(answer.candidates.empty());
}
}  // namespace
}  // namespace panpipe::planner
