// Gradients that are reduced in buckets during the backward that makes them: steps by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;
using test::step;

// Layers of F = I = W = 1 s with 100 parameters of 4 bytes; reducing one takes `reduce` seconds.
test::TableCosts layers_of(int count, double reduce) {
  test::TableCosts costs = test::chain_of(count, 1, 1, 1);
  costs.gather_per_byte = costs.scatter_per_byte = costs.sum_per_byte = reduce / 400;
  return costs;
}

Scenario one_rank(const std::string& family, int microbatches, int bucket_layers) {
  Scenario scenario = scenario_of(1, microbatches, family, 1, 2);
  scenario.overlap_gradients = true;
  scenario.gradient_bucket = Bytes(400 * bucket_layers);
  return scenario;
}

// Two machines behind one another, the backward (b seconds a bucket) and the reduction (r): K equal buckets are done after
// max(K b + r, b + K r).
double flow_shop(int buckets, double b, double r) { return std::max(buckets * b + r, b + buckets * r); }

// Six layers. Whole backwards of 2 s a layer: forwards of all microbatches, backwards of all but the last, and the flow shop.
TEST(Buckets, TheStepIsAFlowShop) {
  for (const double reduce : {0.5, 1.5, 2.0, 3.0, 10.0}) {
    const test::TableCosts costs = layers_of(6, reduce);
    for (const int microbatches : {1, 3})
      for (const int layers : {1, 2, 3, 6}) {
        const double before = 6.0 * microbatches + 12.0 * (microbatches - 1);
        EXPECT_NEAR(step(one_rank("1f1b", microbatches, layers), costs),
                    before + flow_shop(6 / layers, 2.0 * layers, reduce * layers), 1e-9)
            << reduce << " s a layer, " << layers << " layers a bucket";
        Scenario awaited = one_rank("1f1b", microbatches, layers);
        awaited.overlap_gradients = false;
        EXPECT_NEAR(step(awaited, costs), before + 12 + 6 * reduce, 1e-9);
      }
  }
}

// I and W apart: buckets fill as W runs, 1 s a layer behind forwards and input gradients of 6 s each.
TEST(Buckets, OfASplitBackwardFillAsWeightGradientsAreMade) {
  for (const double reduce : {0.5, 1.0, 4.0})
    EXPECT_NEAR(step(one_rank("zb-h1", 1, 2), layers_of(6, reduce)), 12 + flow_shop(3, 2, 2 * reduce), 1e-9) << reduce;
}

// Buckets are cut by bytes: of 600 in each the first is full with the second layer, the second with the third; then the fifth and
// the sixth. Reductions of 3 s from 4, 6, 10 and 12 s of the backward on: 7, 10, 13, 16. The forward takes 6.
TEST(Buckets, AreFullAtTheEndOfALayer) {
  Scenario scenario = one_rank("1f1b", 1, 1);
  scenario.gradient_bucket = Bytes(600);
  EXPECT_NEAR(step(scenario, layers_of(6, 2)), 6 + 16, 1e-9);
}

// ZeRO 2 reduces behind every backward. Backwards of 6 x 2 s end at 12 and (behind a forward of 6) at 30 of the time since the
// first forward; one second a layer is hidden, the last one follows.
TEST(Buckets, OfEveryMicrobatchUnderZero2) {
  test::TableCosts costs = layers_of(6, 1);
  Scenario scenario = one_rank("1f1b", 2, 1);
  scenario.overlap_gradients = false;
  scenario.degrees.zero = 2;
  const Timeline timeline = estimate(test::lowered(scenario, costs));
  int sums = 0;
  Duration last(0);
  for (const Span& span : timeline.spans) {
    if (span.action.kind != ActionKind::ReduceGrad) continue;
    ++sums;
    last = std::max(last, span.end);
  }
  EXPECT_EQ(sums % 12, 0);  // on each of two devices, or of one that stands for both
  EXPECT_NEAR(last.base(), 36 + 1, 1e-9);
}

// A latency of 3 s each: six buckets of 0.1 s end at 2 + 6 x 3.1 = 20.6 s, the whole at 12 + 3.6 s. The framework made buckets.
TEST(Buckets, AreMadeWhereTheWholeWouldEndSooner) {
  test::TableCosts costs = layers_of(6, 0.1);
  costs.collective_latency = Duration(3);
  EXPECT_NEAR(step(one_rank("1f1b", 1, 1), costs), 6 + 2 + 6 * 3.1, 1e-9);
}

// Behind the backward: in one piece 3 + 0.6 s; a framework that has no other way takes six of 3.1 s, one behind another. With
// buckets of 1000 bytes, 2.5 layers, two of 3.25 s and the rest, of one layer.
TEST(Buckets, AwaitedOnesGoOneBehindAnother) {
  test::TableCosts costs = layers_of(6, 0.1);
  costs.collective_latency = Duration(3);
  Scenario scenario = one_rank("1f1b", 1, 1);
  scenario.overlap_gradients = false;
  EXPECT_NEAR(step(scenario, costs), 6 + 12 + 3.6, 1e-9);
  scenario.framework.awaited_buckets = true;
  EXPECT_NEAR(step(scenario, costs), 6 + 12 + 6 * 3.1, 1e-9);
  scenario.gradient_bucket = Bytes(1000);
  EXPECT_NEAR(step(scenario, costs), 6 + 12 + 2 * 3.25 + 3.1, 1e-9);
}

// A head that reads the embedding's weights: their gradient is whole with the embedding, the last unit of the backward. 1200
// bytes in buckets of 400: the head has none, the two layers and the embedding one each.
TEST(Buckets, OfATiedParameterWaitForItsFirstUser) {
  test::TableCosts costs = layers_of(4, 3);
  costs.table.units[3].parameters = {{0, 100, Bytes(0)}};
  // Ready at 4, 6 and 8 of the backward, 3 s each: 7, 10, 13. The forward takes 4.
  EXPECT_NEAR(step(one_rank("1f1b", 1, 1), costs), 4 + 13, 1e-9);
}

// Without latency a step is never slower with overlap than without, and never slower with smaller buckets that divide the larger.
TEST(Buckets, AreNeverSlower) {
  std::mt19937 random(11);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int round = 0; round < 150; ++round) {
    const int units = pick(4, 12);
    test::TableCosts costs = layers_of(units, 1e-3 * pick(1, 3000));
    for (UnitCost& unit : costs.table.units) {
      unit = test::unit_of(static_cast<int>(&unit - costs.table.units.data()), pick(1, 9), pick(1, 9), pick(0, 9));
      unit.parameters.front().elements = 8 * pick(0, 60);
    }
    const std::string family = std::vector<std::string>{"1f1b", "gpipe", "zb-h1", "zb-h2"}[pick(0, 3)];
    Scenario scenario = scenario_of(pick(1, 4), 4, family, 1, 2);
    scenario.degrees.zero = pick(0, 1);
    const double awaited = step(scenario, costs);
    scenario.overlap_gradients = true;
    double before = awaited;
    for (const int bytes : {1 << 20, 1024, 256, 64}) {
      scenario.gradient_bucket = Bytes(bytes);
      const double now = step(scenario, costs);
      EXPECT_LE(now, before + 1e-9) << family << ", round " << round << ", buckets of " << bytes;
      before = now;
    }
    // With latency no slower than the same buckets awaited.
    costs.collective_latency = Duration(0.1 * pick(0, 50));
    scenario.overlap_gradients = false;
    scenario.framework.awaited_buckets = true;
    const double late = step(scenario, costs);
    scenario.overlap_gradients = true;
    EXPECT_LE(step(scenario, costs), late + 1e-9) << family << ", round " << round << ", with latency";
  }
}

}  // namespace
}  // namespace panpipe
