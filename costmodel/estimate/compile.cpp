#include "costmodel/estimate/compile.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/estimate/order_net.hpp"

namespace panpipe {
namespace {

// A value and how much later than it something may start.
struct Dependency {
  std::uint32_t node = 0;
  std::uint16_t delay = 0;
};

class Compiler {
 public:
  explicit Compiler(const TaskGraph& graph) : graph_(graph), net_(graph) {}

  CompiledGraph compile() {
    make_tables();
    result_.task_node.assign(graph_.tasks.size(), 0);
    resize(result_.structure, 0);
    for (const std::int32_t b : net_.levels()) emit(net_.task_sets()[b]);
    finish();
    return std::move(result_);
  }

 private:
  void make_tables() {
    const auto limit = std::size_t{std::numeric_limits<std::uint16_t>::max()};
    if (graph_.programs.size() + graph_.flows.size() >= limit || graph_.links.size() + graph_.points.size() >= limit) {
      throw InputError(
          fmt::format("the plan has {} different passes and collectives and {} different transfers; at most {} of each",
                      graph_.programs.size() + graph_.flows.size(), graph_.links.size(), limit - 1));
    }
    CostTables tables = tables_of(prices_of(graph_));
    result_.costs = std::move(tables.costs);
    result_.delays = std::move(tables.delays);
  }

  std::uint16_t cost_of(const Task& task) const {
    if (task.program >= 0) return static_cast<std::uint16_t>(1 + task.program);
    if (task.flow >= 0) return static_cast<std::uint16_t>(1 + graph_.programs.size() + at(task.flow));
    return 0;
  }

  std::uint32_t add_node(std::uint32_t lane_pred, Dependency from, std::uint16_t cost) {
    Structure& s = result_.structure;
    s.lane_pred.push_back(lane_pred);
    s.src.push_back(from.node);
    s.delay.push_back(from.delay);
    s.cost.push_back(cost);
    return ++s.tasks;
  }

  void depend(std::uint32_t node, std::uint16_t delay) {
    if (node == 0) return;
    for (const Dependency& known : dependencies_) {
      if (known.node == node && known.delay == delay) return;
    }
    dependencies_.push_back({node, delay});
  }

  // Everything that the set's start waits for, but the end of its first member's predecessor on the lane.
  void gather_dependencies(const TaskSet& set) {
    dependencies_.clear();
    for (std::int32_t k = 0; k < set.members; ++k) {
      const std::int32_t t = net_.members()[set.first_member + k], before = net_.lane_before(t);
      const auto on_lane = [&](std::int32_t from) {
        return net_.lane_index(graph_.tasks[from]) == net_.lane_index(graph_.tasks[t]);
      };
      net_.each_wait(t, [&](const Wait& wait) {
        if (net_.set_of(wait.task) == net_.set_of(t)) return;
        // What stands before the task on its lane has ended.
        if (wait.transfer < 0 && on_lane(wait.task) && (k == 0 || wait.task != before)) return;
        const auto delay = wait.transfer >= 0 ? 1 + graph_.transfers[wait.transfer].link
                           : wait.point >= 0  ? 1 + static_cast<std::int32_t>(graph_.links.size()) + wait.point
                                              : 0;
        depend(result_.task_node[wait.task], static_cast<std::uint16_t>(delay));
      });
    }
  }

  void emit(const TaskSet& set) {
    gather_dependencies(set);
    const std::int32_t first = net_.members()[set.first_member];
    std::uint32_t node = net_.lane_before(first) < 0 ? 0 : result_.task_node[net_.lane_before(first)];
    // All but the last dependency, and for tasks side by side the last one as well, go into tasks of no cost. The passes of a
    // group are one task.
    const std::size_t joins = set.together ? dependencies_.size() : std::max<std::size_t>(1, dependencies_.size()) - 1;
    for (std::size_t i = 0; i < joins; ++i) node = add_node(node, dependencies_[i], 0);
    const Dependency last = joins < dependencies_.size() ? dependencies_.back() : Dependency{};
    const std::uint32_t start = node;
    for (std::int32_t k = 0; k < set.members; ++k) {
      const std::int32_t t = net_.members()[set.first_member + k];
      if (k == 0 || set.together) node = add_node(start, last, cost_of(graph_.tasks[t]));
      result_.task_node[t] = node;
    }
  }

  void finish() {
    Structure& s = result_.structure;
    s.cost_entries = static_cast<std::uint32_t>(result_.costs.size());
    s.delay_entries = static_cast<std::uint32_t>(result_.delays.size());
    for (const std::int32_t tail : net_.lane_tails()) {
      if (tail >= 0) s.lane_last.push_back(result_.task_node[tail]);
    }
  }

  const TaskGraph& graph_;
  const OrderNet net_;
  CompiledGraph result_;
  std::vector<Dependency> dependencies_;  // of the set being emitted
};

}  // namespace

CostTables tables_of(const Prices& prices) {
  CostTables tables{{0}, {0}};
  for (const auto* costs : {&prices.programs, &prices.flows})
    tables.costs.insert(tables.costs.end(), costs->begin(), costs->end());
  for (const auto* delays : {&prices.links, &prices.points})
    tables.delays.insert(tables.delays.end(), delays->begin(), delays->end());
  return tables;
}

CompiledGraph compile(const TaskGraph& graph) { return Compiler(graph).compile(); }

}  // namespace panpipe
