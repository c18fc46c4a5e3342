#include "tests/sim/graph_maker.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.hpp"
#include "costmodel/lowering/pass_lanes.hpp"

namespace panpipe::test {
namespace {

class ListedWiring final : public Wiring {
 public:
  explicit ListedWiring(std::map<std::pair<int, int>, Route> routes) : routes_(std::move(routes)) {}
  Route route(int from, int to) const override {
    const auto found = routes_.find({from, to});
    if (found == routes_.end()) throw InputError("no route from " + std::to_string(from) + " to " + std::to_string(to));
    return found->second;
  }

 private:
  std::map<std::pair<int, int>, Route> routes_;
};

std::size_t at_index(int i) { return static_cast<std::size_t>(i); }

// The last task of the compute lane before the cell of `task`; -1 = none.
std::int32_t ends_before(const TaskGraph& graph, std::int32_t task) {
  while (graph.tasks[at_index(task)].group_size == 0) --task;
  const int rank = graph.tasks[at_index(task)].rank;
  while (--task >= graph.rank_begin[at_index(rank)])
    if (graph.tasks[at_index(task)].lane == Lane::Compute) return task;
  return -1;
}

}  // namespace

ClusterMaker::ClusterMaker(int devices) { cluster_.devices.resize(at_index(devices)); }

int ClusterMaker::resource(const std::string& name, Bandwidth bandwidth) {
  cluster_.resources.push_back({name, ResourceClass::GivenLink, bandwidth});
  return static_cast<int>(cluster_.resources.size()) - 1;
}

void ClusterMaker::route(int from, int to, std::vector<Hop> hops, Duration latency) {
  Route route;
  route.path = PathClass::Given;
  route.latency = latency;
  double narrowest = std::numeric_limits<double>::infinity();
  for (const Hop& hop : hops)
    narrowest = std::min(narrowest, cluster_.resources[at_index(hop.resource)].bandwidth.base() / hop.uses);
  route.bandwidth = Bandwidth(narrowest);
  route.hops = std::move(hops);
  routes_[{from, to}] = route;
}

void ClusterMaker::delay(int from, int to, Duration time) {
  Route route;
  route.path = PathClass::Given;
  route.bandwidth = Bandwidth(std::numeric_limits<double>::infinity());
  route.table = std::make_shared<TransferTable>(TransferTable{{{Bytes(1), time}}});
  routes_[{from, to}] = route;
}

void ClusterMaker::path_of_its_own(int from, int to) {
  route(from, to, {{resource(std::to_string(from) + "-" + std::to_string(to), gb_per_s(100)), 1}});
}

Cluster paths_of_their_own(int devices) {
  ClusterMaker cluster(devices);
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to) cluster.path_of_its_own(from, to);
  return cluster.make();
}

Cluster ClusterMaker::make() const {
  Cluster cluster = cluster_;
  cluster.wiring = std::make_shared<ListedWiring>(routes_);
  return cluster;
}

GraphMaker::GraphMaker(int ranks, int tensor, int data) : tasks_(at_index(ranks)) {
  graph_.ranks = ranks;
  graph_.degrees.tensor = tensor;
  graph_.degrees.data = data;
  graph_.devices.resize(at_index(ranks * tensor * data));
  std::iota(graph_.devices.begin(), graph_.devices.end(), 0);
  graph_.memory.resize(at_index(ranks));
}

int GraphMaker::flow(Bytes wire_bytes, Bandwidth rate, Duration latency) {
  CollectiveFlow flow;
  flow.cost.kind = CollectiveKind::AllReduce;
  flow.cost.bytes = flow.cost.wire_bytes = wire_bytes;
  flow.latency = to_ticks(latency);
  flow.transfer = to_ticks(wire_bytes / rate);
  graph_.flows.push_back(flow);
  return static_cast<int>(graph_.flows.size()) - 1;
}

int GraphMaker::flow_between(Bytes wire_bytes, Bandwidth rate, std::vector<std::int32_t> ranks) {
  const int index = flow(wire_bytes, rate);
  graph_.cross_rank_flows.push_back({index, std::move(ranks)});
  return index;
}

int GraphMaker::link(int from_rank, int to_rank, Bytes bytes, Bandwidth rate, Duration latency) {
  TransferLink link;
  link.from_rank = from_rank;
  link.to_rank = to_rank;
  link.cost.bytes = bytes;
  link.latency = to_ticks(latency);
  link.transfer = to_ticks(bytes / rate);
  graph_.links.push_back(link);
  return static_cast<int>(graph_.links.size()) - 1;
}

ProgramStep GraphMaker::compute(Duration time, bool free) {
  ProgramStep step;
  step.free = free;
  step.time = to_ticks(time);
  return step;
}

ProgramStep GraphMaker::collective(int flow) const {
  ProgramStep step;
  step.collective = true;
  step.flow = flow;
  step.time = graph_.flows[at_index(flow)].latency + graph_.flows[at_index(flow)].transfer;
  return step;
}

int GraphMaker::program(const std::vector<ProgramStep>& steps, double overlap_loss) {
  return cell(steps, 1, false, false, overlap_loss);
}

int GraphMaker::cell(const std::vector<ProgramStep>& steps, int members, bool all_inputs, bool atomic, double overlap_loss) {
  Program program;
  program.first_step = static_cast<std::int32_t>(graph_.steps.size());
  program.steps = static_cast<std::int32_t>(steps.size());
  program.members = static_cast<std::uint8_t>(members);
  program.all_inputs = all_inputs || atomic;
  program.atomic = atomic;
  program.overlap_loss = overlap_loss;
  graph_.steps.insert(graph_.steps.end(), steps.begin(), steps.end());
  PassLanes lanes;
  std::vector<MemberRun> runs(at_index(members));
  program.duration = Ticks(run_cell(graph_, program, lanes, runs.data()));
  program.exposed_communication = program.duration;
  for (const MemberRun& run : runs) program.exposed_communication -= Ticks(run.busy);
  graph_.programs.push_back(program);
  return static_cast<int>(graph_.programs.size()) - 1;
}

TaskId GraphMaker::pass(int rank, int program, int microbatch) {
  Task task;
  task.program = program;
  task.action.kind = ActionKind::F;
  task.action.stage = rank;
  task.action.microbatch = microbatch;
  return this->task(rank, task);
}

TaskId GraphMaker::task(int rank, Task task) {
  task.rank = rank;
  tasks_[at_index(rank)].push_back(task);
  return {rank, static_cast<int>(tasks_[at_index(rank)].size()) - 1};
}

TaskId GraphMaker::data_collective(int rank, int flow) {
  Task task;
  task.kind = TaskKind::Collective;
  task.lane = Lane::Data;
  task.flow = flow;
  task.action.kind = ActionKind::ReduceGrad;
  task.action.stage = rank;
  return this->task(rank, task);
}

void GraphMaker::wait_for(TaskId task, TaskId producer) { edges_.push_back({producer, task, -1}); }

int GraphMaker::transfer(TaskId producer, TaskId consumer, int link) {
  edges_.push_back({producer, consumer, link});
  return static_cast<int>(std::count_if(edges_.begin(), edges_.end(), [](const Edge& e) { return e.link >= 0; })) - 1;
}

TaskGraph GraphMaker::make() const {
  TaskGraph graph = graph_;
  graph.rank_begin.push_back(0);
  for (const auto& tasks : tasks_) {
    graph.tasks.insert(graph.tasks.end(), tasks.begin(), tasks.end());
    graph.rank_begin.push_back(static_cast<std::int32_t>(graph.tasks.size()));
  }
  const auto number = [&](TaskId id) { return graph.rank_begin[at_index(id.rank)] + id.index; };
  std::vector<std::vector<Input>> inputs(graph.tasks.size());
  for (const Edge& edge : edges_) {
    Input input;
    input.task = number(edge.from);
    if (edge.link >= 0) {
      input.transfer = static_cast<std::int32_t>(graph.transfers.size());
      Transfer transfer;
      transfer.producer = number(edge.from);
      transfer.consumer = number(edge.to);
      transfer.link = edge.link;
      if (graph.rendezvous) transfer.taken_after = ends_before(graph, transfer.consumer);
      graph.transfers.push_back(transfer);
    }
    inputs[at_index(number(edge.to))].push_back(input);
  }
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    graph.tasks[t].first_input = static_cast<std::int32_t>(graph.inputs.size());
    graph.tasks[t].inputs = static_cast<std::int32_t>(inputs[t].size());
    graph.inputs.insert(graph.inputs.end(), inputs[t].begin(), inputs[t].end());
  }
  return graph;
}

}  // namespace panpipe::test
