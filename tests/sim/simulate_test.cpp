// The tasks of a plan on the network: collectives, groups, waiting for sends, folding, deadlocks.
#include "sim/simulate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "present/result/result.hpp"
#include "tests/fault.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using test::ClusterMaker;
using test::GraphMaker;
using test::TaskId;

Options with(Backend backend, bool merge = true, bool fold = true) { return {backend, merge, fold}; }

double span_end(const Timeline& timeline, int device, Lane lane) {
  double end = 0;
  for (const Span& span : timeline.spans)
    if (span.device == device && span.lane == lane) end = std::max(end, span.end.base());
  return end;
}

// Devices that each send through an own port, "out", and receive through another, "in".
struct Ported {
  ClusterMaker cluster;
  std::vector<int> out, in;

  Ported(int devices, Bandwidth port) : cluster(devices) {
    for (int i = 0; i < devices; ++i) {
      out.push_back(cluster.resource("out" + std::to_string(i), port));
      in.push_back(cluster.resource("in" + std::to_string(i), port));
    }
    for (int i = 0; i < devices; ++i)
      for (int j = 0; j < devices; ++j)
        if (i != j) cluster.route(i, j, {{out[i], 1}, {in[j], 1}});
  }
};

class Simulate : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (!has_backend(GetParam())) GTEST_SKIP() << "this build has no SimGrid";
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Simulate, testing::Values(Backend::FlowSolver, Backend::SimGrid),
                         [](const auto& test) { return test.param == Backend::SimGrid ? "SimGrid" : "FlowSolver"; });

// Tests that need the module skip without it: a build that makes it has it.
TEST(Backends, SimGridLoadsWhereItWasBuilt) { EXPECT_EQ(has_backend(Backend::SimGrid), PANPIPE_SIM != 0); }

// Ring all-reduce of S = 400 MB over n = 4 devices with ports of B = 100 GB/s: 2 (n - 1) / n S / B = 2 x 3/4 x 4 ms = 6 ms,
// between compute steps of 1 and 2 ms.
TEST_P(Simulate, RingAllReduceInsideAPass) {
  const Ported ported(4, gb_per_s(100));
  GraphMaker graph(1, 4);
  const int flow = graph.flow(Bytes(600000000), gb_per_s(100));
  graph.pass(0, graph.program({graph.compute(millis(1)), graph.collective(flow), graph.compute(millis(2))}));
  for (const bool merge : {true, false})
    for (const bool fold : {true, false}) {
      Statistics statistics;
      const Timeline timeline = simulate(graph.make(), ported.cluster.make(), with(GetParam(), merge, fold), &statistics);
      EXPECT_DOUBLE_EQ(timeline.step_time.base(), 9e-3);
      EXPECT_EQ(statistics.merged, merge);
      EXPECT_EQ(statistics.folded_devices, fold ? 4 : 1);
      // Merged: one timer, of all members together. Else two compute steps and one flow for each simulated device.
      EXPECT_EQ(statistics.activities, merge ? 1 : fold ? 3 : 12);
      EXPECT_EQ(statistics.flows, merge ? 0 : fold ? 1 : 4);
      EXPECT_EQ(timeline.contention_lost, Duration(0));
    }
}

// A collective of 3 ms overlaps 2 ms of compute; the step after that waits for both: 1 + max(3, 2) + 1 = 5 ms.
TEST_P(Simulate, OverlappedCollective) {
  const Ported ported(2, gb_per_s(100));
  GraphMaker graph(1, 2);
  const int flow = graph.flow(Bytes(300000000), gb_per_s(100));
  graph.pass(0, graph.program({graph.compute(millis(1)), graph.collective(flow), graph.compute(millis(2), true),
                               graph.compute(millis(1))}));
  for (const bool merge : {true, false})
    EXPECT_DOUBLE_EQ(simulate(graph.make(), ported.cluster.make(), with(GetParam(), merge)).step_time.base(), 5e-3);
}

// Gradients of two ranks with two replicas each, all four devices behind one NIC of 10 GB/s per direction: 2 ranks x 2
// members = 4 flows of 100 MB share it: 4 x 10 ms. Alone (rate 10 GB/s) a flow takes 10 ms.
TEST_P(Simulate, GradientsShareANic) {
  ClusterMaker cluster(4);
  const int nic = cluster.resource("nic", gb_per_s(10));
  GraphMaker graph(2, 1, 2);
  const int flow = graph.flow(Bytes(100000000), gb_per_s(10));
  for (int rank = 0; rank < 2; ++rank) {
    cluster.route(2 * rank, 2 * rank + 1, {{nic, 1}});
    cluster.route(2 * rank + 1, 2 * rank, {{nic, 1}});
    graph.data_collective(rank, flow);
  }
  for (const bool fold : {true, false}) {
    Statistics statistics;
    const Timeline timeline = simulate(graph.make(), cluster.make(), with(GetParam(), true, fold), &statistics);
    EXPECT_NEAR(timeline.step_time.base(), 40e-3, 1e-12);
    EXPECT_EQ(statistics.flows, fold ? 2 : 4);
    ASSERT_EQ(timeline.contention.size(), 1U);
    EXPECT_EQ(timeline.contention.front().flows, 4);
    EXPECT_NEAR(timeline.contention.front().lost.base(), 4 * 30e-3, 1e-11);
    EXPECT_NEAR(timeline.contention.front().utilisation, 1.0, 1e-9);
  }
}

// Ranks 0 and 2 hold one parameter. Rank 0 is ready at 1 ms, rank 2 at 5 ms: both collectives run from 5 to 7 ms
// (100 MB at 50 GB/s), rank 1 has nothing to do with them.
TEST_P(Simulate, CollectiveBetweenRanksStartsTogether) {
  const Ported ported(3, gb_per_s(50));
  GraphMaker graph(3);
  const int flow = graph.flow_between(Bytes(100000000), gb_per_s(50), {0, 2});
  const int brief = graph.program({graph.compute(millis(1))}), longer = graph.program({graph.compute(millis(5))});
  for (const int rank : {0, 2}) {
    const TaskId pass = graph.pass(rank, rank == 0 ? brief : longer);
    graph.wait_for(graph.data_collective(rank, flow), pass);
  }
  graph.pass(1, brief);
  const Timeline timeline = simulate(graph.make(), ported.cluster.make(), with(GetParam()));
  for (const Span& span : timeline.spans) {
    if (span.lane != Lane::Data) continue;
    EXPECT_DOUBLE_EQ(span.start.base(), 5e-3);
    EXPECT_DOUBLE_EQ(span.end.base(), 7e-3);
  }
  EXPECT_DOUBLE_EQ(timeline.step_time.base(), 7e-3);
}

// Rank 0 runs two passes of 1 ms and sends 100 MB at 50 GB/s (2 ms) after the first. Waiting for the send, the second pass
// starts at 1 + 2 = 3 ms; otherwise at 1 ms.
TEST_P(Simulate, WaitsForSends) {
  const Ported ported(2, gb_per_s(50));
  for (const bool waits : {true, false}) {
    GraphMaker graph(2);
    const int program = graph.program({graph.compute(millis(1))});
    const TaskId first = graph.pass(0, program);
    graph.pass(0, program);
    graph.at(first).waits_for_sends = waits;
    graph.transfer(first, graph.pass(1, program), graph.link(0, 1, Bytes(100000000), gb_per_s(50)));
    const Timeline timeline = simulate(graph.make(), ported.cluster.make(), with(GetParam()));
    EXPECT_DOUBLE_EQ(span_end(timeline, 0, Lane::Compute), waits ? 4e-3 : 2e-3);
    EXPECT_DOUBLE_EQ(timeline.step_time.base(), 4e-3);
  }
}

// A group of two passes of 1 ms on rank 1 waits for what either needs, and gives both outputs at its end: rank 0's pass ends
// at 4 ms, the group runs from 4 to 6 ms though its first member needs nothing, rank 2 starts at 6 ms though it needs only the
// first member.
TEST_P(Simulate, GroupsAreAtomic) {
  ClusterMaker cluster(3);
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) cluster.route(from, to, {});
  GraphMaker graph(3);
  const int brief = graph.program({graph.compute(millis(1))}), longer = graph.program({graph.compute(millis(4))});
  ProgramStep of_second = graph.compute(millis(1));
  of_second.member = 1;
  const int group = graph.cell({graph.compute(millis(1)), of_second}, 2, true, true);
  const TaskId source = graph.pass(0, longer), first = graph.pass(1, group), second = graph.pass(1, group),
               sink = graph.pass(2, brief);
  graph.at(first).group_size = 2;
  graph.at(second).group_size = 0;
  graph.transfer(source, second, graph.link(0, 1, Bytes(0), gb_per_s(1)));
  graph.transfer(first, sink, graph.link(1, 2, Bytes(0), gb_per_s(1)));
  EXPECT_DOUBLE_EQ(simulate(graph.make(), cluster.make(), with(GetParam())).step_time.base(), 7e-3);
}

// A measured table or a route without links is a delay and shares nothing: two transfers at once take 3 ms each.
TEST_P(Simulate, TablesAreDelays) {
  ClusterMaker cluster(2);
  cluster.delay(0, 1, millis(3));
  GraphMaker graph(2);
  const int nothing = graph.program({});
  const TaskId sender = graph.pass(0, nothing), receiver = graph.pass(1, nothing);
  for (int i = 0; i < 2; ++i) graph.transfer(sender, receiver, graph.link(0, 1, Bytes(3000000), gb_per_s(1)));
  EXPECT_DOUBLE_EQ(simulate(graph.make(), cluster.make(), with(GetParam())).step_time.base(), 3e-3);
}

// Two simulations in one process, one after another and with another between them: the same bytes.
TEST_P(Simulate, TwoRunsGiveTheSameBytes) {
  const auto document = [&](Bandwidth port) {
    const Ported ported(4, port);
    GraphMaker graph(2, 2);
    const int flow = graph.flow(Bytes(1234567), gb_per_s(7));
    const int program = graph.program({graph.compute(micros(317)), graph.collective(flow), graph.compute(micros(11))});
    const int link = graph.link(0, 1, Bytes(7654321), gb_per_s(7));
    std::vector<TaskId> sent;
    for (int i = 0; i < 9; ++i) sent.push_back(graph.pass(0, program, i));
    for (int i = 0; i < 9; ++i) graph.transfer(sent[i], graph.pass(1, program, i), link);
    const Timeline timeline = simulate(graph.make(), ported.cluster.make(), with(GetParam(), false, false));
    present::ResultContext context;
    context.with_clock = false;
    return to_result_json(timeline, metrics(timeline), context, true);
  };
  const std::string first = document(gb_per_s(7));
  EXPECT_NE(document(gb_per_s(6.7)), first);
  EXPECT_EQ(document(gb_per_s(7)), first);
}

// Each of two ranks first runs what waits for the other's second pass.
TEST_P(Simulate, AnOrderThatCannotFinishIsNamedAsTheEstimateNamesIt) {
  const Ported ported(2, gb_per_s(10));
  GraphMaker graph(2);
  const int program = graph.program({graph.compute(millis(1))});
  const TaskId a = graph.pass(0, program, 0), b = graph.pass(0, program, 1), c = graph.pass(1, program, 0),
               d = graph.pass(1, program, 1);
  graph.transfer(b, c, graph.link(0, 1, Bytes(1000), gb_per_s(10)));
  graph.transfer(d, a, graph.link(1, 0, Bytes(1000), gb_per_s(10)));
  const std::string simulated =
      test::fault_of<NoAnswer>([&] { simulate(graph.make(), ported.cluster.make(), with(GetParam())); });
  EXPECT_EQ(simulated, test::fault_of<NoAnswer>([&] { estimate(graph.make()); }));
  EXPECT_THAT(simulated, testing::HasSubstr("0F0"));
  EXPECT_THAT(simulated, testing::HasSubstr("1F0"));
}

}  // namespace
}  // namespace panpipe::sim
