// Flows over shared links, in closed form, for both back ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/simulate.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using test::ClusterMaker;
using test::GraphMaker;
using test::TaskId;

// Flows that all start at time 0, each between two devices of its own (2i -> 2i + 1).
class Flows {
 public:
  explicit Flows(int count) : cluster(2 * count), graph_(2 * count) {}

  ClusterMaker cluster;

  // `rate`: alone.
  void add(std::vector<Hop> hops, Bytes bytes, Bandwidth rate, Duration latency = Duration(0)) {
    const int from = 2 * flows_, to = from + 1;
    ++flows_;
    cluster.route(from, to, std::move(hops), latency);
    const int nothing = graph_.program({});
    const TaskId sends = graph_.pass(from, nothing), receives = graph_.pass(to, nothing);
    graph_.transfer(sends, receives, graph_.link(from, to, bytes, rate, latency));
  }

  Timeline run(Backend backend) const {
    Options options;
    options.backend = backend;
    return simulate(graph_.make(), cluster.make(), options);
  }

  // Seconds at which each flow ends.
  std::vector<double> ends(Backend backend) const {
    std::vector<double> ends(flows_, 0);
    for (const Span& span : run(backend).spans)
      if (span.lane == Lane::Send) ends[span.device / 2] = span.end.base();
    return ends;
  }

 private:
  GraphMaker graph_;
  int flows_ = 0;
};

void expect_ends(const Flows& flows, Backend backend, const std::vector<double>& expected) {
  const std::vector<double> ends = flows.ends(backend);
  ASSERT_EQ(ends.size(), expected.size());
  for (std::size_t i = 0; i < ends.size(); ++i) EXPECT_NEAR(ends[i], expected[i], 1.1e-12) << "flow " << i;
}

class Sharing : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (!has_backend(GetParam())) GTEST_SKIP() << "this build has no SimGrid";
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Sharing, testing::Values(Backend::FlowSolver, Backend::SimGrid),
                         [](const auto& test) { return test.param == Backend::SimGrid ? "SimGrid" : "FlowSolver"; });

constexpr Bytes kGigabyte{1000000000};

// Two flows of 1 GB over one link of 10 GB/s get 5 GB/s each: 0.2 s. Alone 0.1 s.
TEST_P(Sharing, TwoEqualFlowsOnOneLink) {
  Flows flows(2);
  const int link = flows.cluster.resource("link", gb_per_s(10));
  for (int i = 0; i < 2; ++i) flows.add({{link, 1}}, kGigabyte, gb_per_s(10));
  expect_ends(flows, GetParam(), {0.2, 0.2});
}

// The latency of a flow is no weight in sharing. The first starts after 1 us, the second after 10 us: the first is alone for
// 9 us (90 kB), then both get 5 GB/s. It ends at 10 us + 0.99991 GB / 5 GB/s = 0.199992 s; the second has by then
// 0.99991 GB of its 1 GB and ends 9 us later: 10 us + 0.2 s - 9 us = 0.200001 s.
TEST_P(Sharing, UnequalLatenciesShareEqually) {
  Flows flows(2);
  const int link = flows.cluster.resource("link", gb_per_s(10));
  flows.add({{link, 1}}, kGigabyte, gb_per_s(10), micros(1));
  flows.add({{link, 1}}, kGigabyte, gb_per_s(10), micros(10));
  expect_ends(flows, GetParam(), {0.199992, 0.200001});
}

// A route without latency does not starve next to one with: 10 us alone are 100 kB, then 10 us + 0.9999 GB / 5 GB/s.
TEST_P(Sharing, RoutesWithAndWithoutLatency) {
  Flows flows(2);
  const int link = flows.cluster.resource("link", gb_per_s(10));
  flows.add({{link, 1}}, kGigabyte, gb_per_s(10));
  flows.add({{link, 1}}, kGigabyte, gb_per_s(10), micros(10));
  expect_ends(flows, GetParam(), {10e-6 + 0.19998, 0.2 + 1e-5 - 1e-5});
}

// Directions are resources of their own: a flow the other way changes nothing, 1 GB / 10 GB/s each.
TEST_P(Sharing, TheOppositeDirectionDoesNotInterfere) {
  Flows flows(2);
  const int out = flows.cluster.resource("out", gb_per_s(10)), in = flows.cluster.resource("in", gb_per_s(10));
  flows.add({{out, 1}}, kGigabyte, gb_per_s(10));
  flows.add({{in, 1}}, kGigabyte, gb_per_s(10));
  expect_ends(flows, GetParam(), {0.1, 0.1});
}

// Copies staged in host memory cross the link between sockets twice: one copy gets 22 / 2 = 11 GB/s. n copies of 1.1 GB at
// once take n x 0.1 s.
TEST_P(Sharing, StagedCopiesOverOneSocketLink) {
  for (int n = 1; n <= 3; ++n) {
    Flows flows(n);
    const int socket = flows.cluster.resource("socket", gb_per_s(22));
    for (int i = 0; i < n; ++i) {
      const int pcie = flows.cluster.resource("pcie" + std::to_string(i), gb_per_s(25));
      flows.add({{pcie, 1}, {socket, 2}}, Bytes(1100000000), gb_per_s(11));
    }
    expect_ends(flows, GetParam(), std::vector<double>(static_cast<std::size_t>(n), 0.1 * n));
  }
}

// Links of 10, 4 and 10 GB/s. A: 1+2, B: 1, C: 2+3, D: 3. Filling up together, link 2 is full first, at 2 GB/s for A and C;
// then B and D take what is left of links 1 and 3: 8 GB/s. With 2, 4, 2 and 8 GB: B ends at 0.5 s, all others at 1 s
// (link 2 still holds A at 2 GB/s when B has gone).
TEST_P(Sharing, MaxMinOverThreeLinks) {
  Flows flows(4);
  const int first = flows.cluster.resource("first", gb_per_s(10)), second = flows.cluster.resource("second", gb_per_s(4)),
            third = flows.cluster.resource("third", gb_per_s(10));
  flows.add({{first, 1}, {second, 1}}, Bytes(2000000000), gb_per_s(4));
  flows.add({{first, 1}}, Bytes(4000000000), gb_per_s(10));
  flows.add({{second, 1}, {third, 1}}, Bytes(2000000000), gb_per_s(4));
  flows.add({{third, 1}}, Bytes(8000000000), gb_per_s(10));
  expect_ends(flows, GetParam(), {1.0, 0.5, 1.0, 1.0});
}

// A flow that reaches 60 % of its route alone keeps 6 of 10 GB/s when the other, which reaches 30 %, takes only 3: nothing is
// lost. Beside a third without bound, 10 - 3 = 7 GB/s are left for two: 3.5 each.
TEST_P(Sharing, FlowsBelowTheirRoutesBandwidth) {
  Flows two(2);
  int link = two.cluster.resource("link", gb_per_s(10));
  two.add({{link, 1}}, kGigabyte, gb_per_s(6));
  two.add({{link, 1}}, kGigabyte, gb_per_s(3));
  expect_ends(two, GetParam(), {1.0 / 6, 1.0 / 3});
  Flows three(3);
  link = three.cluster.resource("link", gb_per_s(10));
  three.add({{link, 1}}, Bytes(3500000000), gb_per_s(6));
  three.add({{link, 1}}, Bytes(3000000000), gb_per_s(3));
  three.add({{link, 1}}, Bytes(3500000000), gb_per_s(10));
  expect_ends(three, GetParam(), {1.0, 1.0, 1.0});
}

// When one of two flows ends the other gets the whole link: 1 and 3 GB over 10 GB/s end at 0.2 s and at
// 0.2 + (3 - 1) / 10 = 0.4 s.
TEST_P(Sharing, TheRestGoesFaster) {
  Flows flows(2);
  const int link = flows.cluster.resource("link", gb_per_s(10));
  flows.add({{link, 1}}, kGigabyte, gb_per_s(10));
  flows.add({{link, 1}}, Bytes(3000000000), gb_per_s(10));
  expect_ends(flows, GetParam(), {0.2, 0.4});
}

// Events closer than a nanosecond are not merged: 1,000,000 and 1,000,400 bytes at 1 TB/s end 400 ps apart.
TEST_P(Sharing, EventsWithinANanosecondStayApart) {
  Flows flows(2);
  for (int i = 0; i < 2; ++i) {
    const int link = flows.cluster.resource("link" + std::to_string(i), gb_per_s(1000));
    flows.add({{link, 1}}, Bytes(1000000 + 400 * i), gb_per_s(1000));
  }
  const std::vector<double> ends = flows.ends(GetParam());
  EXPECT_DOUBLE_EQ(ends[0], 1.0000e-6);
  EXPECT_DOUBLE_EQ(ends[1], 1.0004e-6);
}

// The report of two flows on one link: both there for 0.2 s, 0.1 s lost by each, 2 GB carried in a step of 0.2 s at 10 GB/s.
TEST_P(Sharing, TheReportStatesWhereTimeWasLost) {
  Flows flows(2);
  const int link = flows.cluster.resource("link", gb_per_s(10));
  for (int i = 0; i < 2; ++i)
    flows.add({{link, 1}, {flows.cluster.resource("own" + std::to_string(i), gb_per_s(20)), 1}}, kGigabyte, gb_per_s(10));
  const Timeline timeline = flows.run(GetParam());
  ASSERT_EQ(timeline.contention.size(), 3U);
  const LinkContention& row = timeline.contention.front();
  EXPECT_EQ(row.resource, "link");
  EXPECT_NEAR(row.busy.base(), 0.2, 1e-12);
  EXPECT_NEAR(row.shared.base(), 0.2, 1e-12);
  EXPECT_NEAR(row.lost.base(), 0.2, 1e-12);
  EXPECT_EQ(row.flows, 2);
  EXPECT_NEAR(row.utilisation, 1.0, 1e-9);
  EXPECT_NEAR(timeline.contention[1].utilisation, 0.25, 1e-9);
  EXPECT_EQ(timeline.contention[1].lost, Duration(0));
  EXPECT_NEAR(timeline.contention_lost.base(), 0.1, 1e-12);
  for (const Span& span : timeline.spans) {
    if (span.lane != Lane::Send) continue;
    EXPECT_NEAR(span.alone.base(), 0.1, 1e-12);
  }
}

}  // namespace
}  // namespace panpipe::sim
