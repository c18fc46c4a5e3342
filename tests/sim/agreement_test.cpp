// Both back ends, merged or not, folded or not: one step time, on hundreds of random plans and topologies.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using test::ClusterMaker;
using test::GraphMaker;
using test::TaskId;

struct Case {
  TaskGraph graph;
  Cluster cluster;
};

enum class Topology { PrivatePorts, NodesWithOneNic, StagedThroughHost, Arbitrary, WidePaths };

class CaseMaker {
 public:
  CaseMaker(unsigned seed, Topology topology, bool woven) : random_(seed), topology_(topology), woven_(woven) {}

  Case make() {
    ranks_ = pick(1, 4);
    tensor_ = 1 << pick(0, 2);
    data_ = pick(1, 2);
    devices_ = ranks_ * tensor_ * data_;
    ClusterMaker maker(devices_);
    wire(maker);
    const Cluster cluster = maker.make();
    return {graph(cluster), cluster};
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  double real(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random_); }

  void wire(ClusterMaker& maker) {
    const auto name = [](const std::string& what, int i) { return what + std::to_string(i); };
    const int per_node = std::max(1, tensor_ * pick(1, 2));
    std::vector<int> out, in, nic_out, nic_in, pool;
    const Bandwidth port = gb_per_s(pick(5, 20)), nic = gb_per_s(pick(2, 30));
    for (int i = 0; i < devices_; ++i) {
      out.push_back(maker.resource(name("out", i), port));
      in.push_back(maker.resource(name("in", i), port));
    }
    for (int i = 0; i < devices_; i += per_node) {
      nic_out.push_back(maker.resource(name("nic.out", i), nic));
      nic_in.push_back(maker.resource(name("nic.in", i), nic));
    }
    const int socket = maker.resource("socket", gb_per_s(22));
    for (int i = 0; i < 6; ++i) pool.push_back(maker.resource(name("pool", i), gb_per_s(pick(3, 12))));
    for (int from = 0; from < devices_; ++from)
      for (int to = 0; to < devices_; ++to) {
        if (from == to) continue;
        const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
        const auto node = static_cast<std::size_t>(per_node);
        std::vector<Hop> hops{{out[f], 1}, {in[t], 1}};
        if (topology_ == Topology::NodesWithOneNic && f / node != t / node)
          hops = {{nic_out[f / node], 1}, {nic_in[t / node], 1}};
        if (topology_ == Topology::StagedThroughHost) hops = {{out[f], 1}, {socket, 2}, {in[t], 1}};
        if (topology_ == Topology::WidePaths)
          hops = {{maker.resource("path" + std::to_string(from) + "-" + std::to_string(to), Bandwidth(port.base() * 100)), 1}};
        if (topology_ == Topology::Arbitrary) {
          std::shuffle(pool.begin(), pool.end(), random_);
          hops.clear();
          for (int k = pick(1, 3); k > 0; --k) hops.push_back({pool[k], pick(1, 2)});
        }
        maker.route(from, to, hops, micros(topology_ == Topology::WidePaths ? 2 : pick(0, 3)));
      }
  }

  double narrowest(const Cluster& cluster, const TaskGraph& shape, int from, int to) const {
    double least = 1e30;
    for (int d = 0; d < data_; ++d)
      for (int t = 0; t < tensor_; ++t) {
        const int a = shape.device(from, d, t), b = shape.device(to, d, t);
        if (a != b) least = std::min(least, cluster.route(a, b).bandwidth.base());
        const int next = shape.device(from, d, (t + 1) % tensor_), other = shape.device(from, (d + 1) % data_, t);
        if (next != a) least = std::min(least, cluster.route(a, next).bandwidth.base());
        if (other != a) least = std::min(least, cluster.route(a, other).bandwidth.base());
      }
    // On wide paths even thirty transfers at once share nothing: each reaches at most a hundredth of the bandwidth.
    return topology_ == Topology::WidePaths ? least / 100 : least;
  }

  // A woven cell of one or two passes: any member's steps in any order, a collective behind some of the compute.
  int random_cell(GraphMaker& maker, int members, const std::vector<int>& flows) {
    std::vector<ProgramStep> steps;
    for (int s = pick(members, 8); s > 0; --s) {
      ProgramStep step = GraphMaker::compute(millis(pick(1, 60)));
      step.member = static_cast<std::uint8_t>(pick(0, members - 1));
      step.free = pick(0, 3) == 0;
      steps.push_back(step);
      if (tensor_ == 1 || pick(0, 2) == 0) continue;
      ProgramStep reduce = maker.collective(flows[pick(0, static_cast<int>(flows.size()) - 1)]);
      reduce.member = step.member;
      steps.push_back(reduce);
    }
    const bool all_inputs = pick(0, 1) == 0, atomic = pick(0, 4) == 0;
    return maker.cell(steps, members, all_inputs, atomic, overlap_loss_);
  }

  // Up to the last step of a member; -1 when it has none.
  static std::int32_t own_steps(const TaskGraph& graph, int program, int member) {
    const Program& p = graph.programs[program];
    for (std::int32_t s = p.steps; s > 0 && !p.atomic; --s)
      if (graph.steps[p.first_step + s - 1].member == member) return s;
    return -1;
  }

  // Cells in an order that can finish: inputs come from earlier ones.
  TaskGraph woven_graph(const Cluster& cluster) {
    GraphMaker maker(ranks_, tensor_, data_);
    maker.graph().collectives_run_on = pick(0, 1) == 1;
    overlap_loss_ = pick(0, 2) * 0.15;
    maker.graph().rendezvous = pick(0, 3) == 0;
    const TaskGraph shape = maker.make();
    std::vector<std::vector<int>> flows(ranks_), links(static_cast<std::size_t>(ranks_ * ranks_));
    for (int rank = 0; rank < ranks_; ++rank)
      for (int k = 0; k < 3; ++k)
        flows[rank].push_back(maker.flow(Bytes(pick(10, 200) * 1000000),
                                         Bandwidth(narrowest(cluster, shape, rank, rank) * real(0.3, 1)), micros(pick(0, 5))));
    std::vector<TaskId> passes;
    for (int i = 0; i < 20; ++i) {
      const int rank = pick(0, ranks_ - 1), members = pick(1, 2);
      const int program = random_cell(maker, members, flows[rank]);
      const std::size_t known_passes = passes.size();
      for (int m = 0; m < members; ++m) {
        const TaskId pass = maker.pass(rank, program, i);
        Task& task = maker.at(pass);
        task.group_size = static_cast<std::uint8_t>(m == 0 ? members : 0);
        task.waits_for_sends = pick(0, 4) == 0;
        if (pick(0, 2) == 0) task.output_steps = own_steps(maker.graph(), program, m);
        for (int k = 0; k < 2 && known_passes > 0; ++k) {
          const TaskId from = passes[pick(0, static_cast<int>(known_passes) - 1)];
          if (from.rank == rank) continue;
          auto& known = links[from.rank * ranks_ + rank];
          if (known.empty())
            known.push_back(maker.link(from.rank, rank, Bytes(pick(10, 500) * 1000000),
                                       Bandwidth(narrowest(cluster, shape, from.rank, rank) * real(0.3, 1)),
                                       micros(pick(0, 20))));
          maker.transfer(from, pass, known.front());
        }
        passes.push_back(pass);
      }
    }
    return maker.make();
  }

  TaskGraph graph(const Cluster& cluster) {
    if (woven_) return woven_graph(cluster);
    GraphMaker maker(ranks_, tensor_, data_);
    const TaskGraph shape = maker.make();
    std::vector<std::vector<int>> programs(ranks_);
    std::vector<int> reductions;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Bandwidth rate(narrowest(cluster, shape, rank, rank) * real(0.3, 1));
      const auto wire = [&] { return Bytes(pick(10, 200) * 1000000); };
      reductions.push_back(maker.flow(wire(), rate, micros(pick(0, 5))));
      for (int p = 0; p < 2; ++p) {
        std::vector<ProgramStep> steps;
        bool overlaps = false;  // the last collective lets compute run
        for (int s = pick(1, 6); s > 0; --s) {
          steps.push_back(GraphMaker::compute(millis(pick(1, 60)), overlaps));
          if (tensor_ == 1) continue;
          steps.push_back(maker.collective(maker.flow(wire(), rate, micros(pick(0, 5)))));
          overlaps = pick(0, 3) == 0;
        }
        programs[rank].push_back(maker.program(steps));
      }
    }
    std::vector<TaskId> passes;
    std::vector<std::vector<int>> links(ranks_ * ranks_);
    for (int i = 0; i < 30; ++i) {
      const int rank = pick(0, ranks_ - 1);
      const TaskId pass = maker.pass(rank, programs[rank][pick(0, 1)], i);
      maker.at(pass).waits_for_sends = pick(0, 5) == 0;
      for (int k = 0; k < 2 && !passes.empty(); ++k) {
        const TaskId from = passes[pick(0, static_cast<int>(passes.size()) - 1)];
        if (from.rank == rank) continue;
        auto& known = links[from.rank * ranks_ + rank];
        const Bandwidth rate(narrowest(cluster, shape, from.rank, rank) * real(0.3, 1));
        if (known.empty())
          known.push_back(maker.link(from.rank, rank, Bytes(pick(10, 500) * 1000000), rate, micros(pick(0, 20))));
        maker.transfer(from, pass, known.front());
      }
      passes.push_back(pass);
      if (data_ > 1 && pick(0, 5) == 0) maker.wait_for(maker.data_collective(rank, reductions[rank]), pass);
    }
    return maker.make();
  }

  std::mt19937 random_;
  Topology topology_;
  bool woven_ = false;
  double overlap_loss_ = 0;
  int ranks_ = 1, tensor_ = 1, data_ = 1, devices_ = 1;
};

// False when the order cannot finish (a rendezvous).
bool expect_one_step_time(unsigned seed, Topology topology, bool with_simgrid, bool woven) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", topology " + std::to_string(static_cast<int>(topology)));
  const Case test = CaseMaker(seed, topology, woven).make();
  if (test.graph.rendezvous) {
    try {
      estimate_times(test.graph);
    } catch (const NoAnswer&) {
      return false;
    }
  }
  const auto step = [&](Backend backend, bool merge, bool fold) {
    return simulate(test.graph, test.cluster, {backend, merge, fold}).step_time.base();
  };
  const double plain = step(Backend::FlowSolver, false, false);
  const double tolerance = plain * 1e-9;
  EXPECT_NEAR(step(Backend::FlowSolver, true, false), plain, tolerance);
  EXPECT_NEAR(step(Backend::FlowSolver, false, true), plain, tolerance);
  EXPECT_NEAR(step(Backend::FlowSolver, true, true), plain, tolerance);
  if (with_simgrid) {
    EXPECT_NEAR(step(Backend::SimGrid, false, false), plain, tolerance);
    EXPECT_NEAR(step(Backend::SimGrid, true, true), plain, tolerance);
  }
  if (topology != Topology::WidePaths) return true;
  double idle = 0;
  for (const Ticks end : estimate_times(test.graph).task_end) idle = std::max(idle, to_duration(end).base());
  EXPECT_NEAR(idle, plain, tolerance);
  return true;
}

std::string name_of_case(const testing::TestParamInfo<Topology>& test) {
  static const char* const names[] = {"PrivatePorts", "NodesWithOneNic", "StagedThroughHost", "Arbitrary", "WidePaths"};
  return names[static_cast<int>(test.param)];
}

class Agreement : public testing::TestWithParam<Topology> {};
INSTANTIATE_TEST_SUITE_P(Topologies, Agreement,
                         testing::Values(Topology::PrivatePorts, Topology::NodesWithOneNic, Topology::StagedThroughHost,
                                         Topology::Arbitrary, Topology::WidePaths),
                         name_of_case);

TEST_P(Agreement, BackendsMergingAndFolding) {
  const bool simgrid = has_backend(Backend::SimGrid);
  for (unsigned seed = 1; seed <= 60; ++seed) expect_one_step_time(seed, GetParam(), simgrid, false);
}

TEST_P(Agreement, GroupsAndTrailingCollectives) {
  const bool simgrid = has_backend(Backend::SimGrid);
  int finished = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) finished += expect_one_step_time(seed, GetParam(), simgrid, true);
  EXPECT_GE(finished, 45);
}

}  // namespace
}  // namespace panpipe::sim
