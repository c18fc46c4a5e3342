// Collectives of passes over tensor and context groups in both engines: equal times where no link is shared, the sharing where
// one is; and gradients over context ranks as over replicas.
#include <gtest/gtest.h>

#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

CollectiveCost cost_of(CollectiveKind kind, Among among, int members, std::int64_t bytes, double rate) {
  CollectiveCost cost;
  cost.kind = kind;
  cost.among = among;
  cost.members = members;
  cost.bytes = cost.wire_bytes = Bytes(bytes);
  cost.latency = micros(100);
  cost.time = cost.latency + Duration(static_cast<double>(bytes) / rate);
  return cost;
}

Piece exchange(int id, const test::TableCosts& costs) { return {true, false, costs.table.collectives[id].time, id}; }
Piece part(double seconds, bool overlaps) {
  Piece piece;
  piece.time = Duration(seconds);
  piece.chunk = overlaps;
  return piece;
}

enum : int { kSum, kHop, kHeads };

// Passes of a sum over the tensor group, a ring of two hops or an exchange of heads over the context group, and another sum.
test::TableCosts units_of(int count, bool ring, int context, double rate) {
  test::TableCosts costs = test::flows_of(count, 20e-6, 20e-6);
  costs.slowdown = 0.2;
  costs.table.collectives = {cost_of(CollectiveKind::AllReduce, Among::Tensor, 2, 3'000'000, rate),
                             cost_of(CollectiveKind::SendReceive, Among::Context, context, 40'000'000, rate),
                             cost_of(CollectiveKind::AllToAll, Among::Context, context, 20'000'000, rate)};
  for (UnitCost& unit : costs.table.units)
    for (PassCost* pass : {&unit.forward, &unit.input_gradient}) {
      pass->pieces.push_back(exchange(kSum, costs));
      pass->pieces.push_back(part(1e-3, false));
      if (ring)
        for (const bool overlaps : {true, true, false}) {
          if (overlaps) pass->pieces.push_back(exchange(kHop, costs));
          pass->pieces.push_back(part(3e-3, overlaps));
        }
      else
        pass->pieces.push_back(exchange(kHeads, costs));
      pass->pieces.push_back(part(2e-3, false));
      pass->pieces.push_back(exchange(kSum, costs));
    }
  return costs;
}

Scenario scenario_of(const std::string& family, int pipeline, int tensor, int context, int data) {
  Scenario scenario = test::scenario_of(pipeline, 4, family, 1, tensor * context * data);
  scenario.degrees.data = data;
  scenario.degrees.tensor = tensor;
  scenario.degrees.context = context;
  return scenario;
}

TEST(ContextGroups, BothEnginesAgree) {
  for (const std::string family : {"1f1b", "zb-h1"})
    for (const bool ring : {true, false})
      for (const int context : {2, 3})
        for (const int zero : {0, 1, 3})
          for (const bool fold : {false, true})
            for (const bool merge : {false, true}) {
              const test::TableCosts costs = units_of(4, ring, context, 10e9);
              Scenario scenario = scenario_of(family, 2, 2, context, 2);
              scenario.degrees.zero = zero;
              const TaskGraph graph = test::lowered(scenario, costs);
              const Timeline simulated =
                  simulate(graph, test::paths_of_their_own(8 * context), {Backend::FlowSolver, merge, fold});
              EXPECT_NEAR(simulated.step_time.base(), estimate(graph).step_time.base(), 1e-9)
                  << family << (ring ? ", ring" : ", heads") << ", context " << context << ", ZeRO " << zero << fold << merge;
            }
}

// One pass, an exchange of heads among four devices, alone 20 MB at 10 GB/s. Each sends 20 / 3 MB to each other. Two and two
// behind a way of 10 GB/s each direction: four of each pair's messages cross it, 2 senders x 2 peers x 20 / 3 MB = 26.7 MB, 2.67
// ms in place of 2.
TEST(ContextGroups, AnAllToAllSharesTheWayBetweenNodes) {
  test::TableCosts costs = units_of(1, false, 4, 10e9);
  for (UnitCost& unit : costs.table.units) {
    unit.forward = test::pass_of(1e-3);
    unit.forward.pieces.push_back(exchange(kHeads, costs));
    unit.input_gradient = unit.weight_gradient = test::pass_of(1e-3);
    unit.parameters.clear();
  }
  Scenario scenario = scenario_of("1f1b", 1, 1, 4, 1);
  scenario.degrees.microbatches = 1;
  const TaskGraph graph = test::lowered(scenario, costs);
  test::ClusterMaker cluster(4);
  const int away = cluster.resource("away", gb_per_s(10)), back = cluster.resource("back", gb_per_s(10));
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to)
      if (from != to && from / 2 != to / 2)
        cluster.route(from, to, {{from < to ? away : back, 1}}, micros(0));
      else if (from != to)
        cluster.path_of_its_own(from, to);
  for (const bool fold : {false, true})
    EXPECT_NEAR(simulate(graph, cluster.make(), {Backend::FlowSolver, true, fold}).step_time.base(),
                estimate(graph).step_time.base() + 2e-3 / 3, 1e-8);
}

// Context ranks hold the same weights: gradients are reduced, and memory is divided, as over so many replicas. They train on as
// many samples as one.
TEST(ContextGroups, GradientsAreThoseOfReplicas) {
  for (const int zero : {0, 1, 2, 3}) {
    test::TableCosts costs = test::flows_of(6, 20e-6, 20e-6);
    costs.is_measured = true;
    const auto lowered = [&](int context, int data) {
      Scenario scenario = scenario_of("1f1b", 2, 1, context, data);
      scenario.degrees.zero = zero;
      return test::lowered(scenario, costs);
    };
    const TaskGraph two = lowered(2, 1), replicas = lowered(1, 2), both = lowered(2, 2), four = lowered(1, 4);
    EXPECT_EQ(estimate(two).step_time, estimate(replicas).step_time) << "ZeRO " << zero;
    EXPECT_EQ(estimate(both).step_time, estimate(four).step_time) << "ZeRO " << zero;
    EXPECT_EQ(two.samples_per_step * 2, replicas.samples_per_step);
    EXPECT_EQ(both.samples_per_step * 2, four.samples_per_step);
    for (const auto& [one, other] : {std::pair(&two, &replicas), {&both, &four}})
      for (std::size_t i = 0; i < one->memory.front().parts.size(); ++i)
        EXPECT_EQ(one->memory.front().parts[i].bytes, other->memory.front().parts[i].bytes) << "ZeRO " << zero;
  }
}

}  // namespace
}  // namespace panpipe::sim
