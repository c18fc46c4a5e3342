// Task graphs written by hand, and from schedules with a cost table per (stage, pass) and a delay table per stage hand-over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/lowering/pass_lanes.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::testing {

// Tables in ticks, indexed as structures made from a PipelineOrder index them.
struct Tables {
  std::vector<double> costs, delays;
};

inline Tables random_tables(int stages, std::mt19937& random) {
  std::uniform_int_distribution<int> cost(0, 1000), delay(0, 300), kind(0, 9);
  Tables tables;
  tables.costs.assign(static_cast<std::size_t>(stages) * 4 + 1, 0);
  tables.delays.assign(static_cast<std::size_t>(stages) * 2 + 1, 0);
  for (std::size_t i = 1; i < tables.costs.size(); ++i) tables.costs[i] = cost(random) * (kind(random) == 0 ? 10 : 1);
  for (std::size_t i = 1; i < tables.delays.size(); ++i) tables.delays[i] = kind(random) < 3 ? 0 : delay(random);
  return tables;
}

inline Tables even_tables(int stages, double f, double i, double w, double delay) {
  Tables tables;
  tables.costs.push_back(0);
  for (int s = 0; s < stages; ++s) tables.costs.insert(tables.costs.end(), {f, i, w, i + w});
  tables.delays.assign(static_cast<std::size_t>(stages) * 2 + 1, delay);
  tables.delays[0] = 0;
  return tables;
}

class GraphBuilder {
 public:
  explicit GraphBuilder(int ranks) {
    graph_.ranks = ranks;
    for (int r = 0; r < ranks; ++r) graph_.devices.push_back(r);
    graph_.rank_begin.assign(static_cast<std::size_t>(ranks) + 1, 0);
  }

  int program(double duration) { return program({{.time = Ticks(duration)}}); }
  // `members`: of a group whose passes follow one another.
  int program(const std::vector<ProgramStep>& steps, int members = 1) {
    Program program;
    program.first_step = static_cast<std::int32_t>(graph_.steps.size());
    program.steps = static_cast<std::int32_t>(steps.size());
    program.members = static_cast<std::uint8_t>(members);
    program.atomic = program.all_inputs = members > 1;
    graph_.steps.insert(graph_.steps.end(), steps.begin(), steps.end());
    PassLanes lanes;
    std::vector<MemberRun> runs(members);
    program.duration = program.exposed_communication = Ticks(run_cell(graph_, program, lanes, runs.data()));
    for (const MemberRun& run : runs) program.exposed_communication -= Ticks(run.busy);
    graph_.programs.push_back(program);
    return static_cast<int>(graph_.programs.size()) - 1;
  }
  // The passes from `first` on become a group of so many, one after another.
  void group(int first, int members) {
    std::vector<ProgramStep> steps;
    for (int m = 0; m < members; ++m) {
      const Program& program = graph_.programs[task(first + m).program];
      for (std::int32_t s = program.first_step; s < program.first_step + program.steps; ++s) {
        steps.push_back(graph_.steps[s]);
        steps.back().member = static_cast<std::uint8_t>(m);
      }
    }
    const int together = program(steps, members);
    for (int m = 0; m < members; ++m) {
      task(first + m).program = together;
      task(first + m).group_size = static_cast<std::uint8_t>(m == 0 ? members : 0);
    }
  }

  int link(int from, int to, double latency, double transfer, Bytes size = Bytes(0)) {
    TransferLink link;
    link.from_rank = from;
    link.to_rank = to;
    link.latency = Ticks(latency);
    link.transfer = Ticks(transfer);
    link.cost.bytes = size;
    graph_.links.push_back(link);
    return static_cast<int>(graph_.links.size()) - 1;
  }

  int flow(double latency, double transfer, Bytes size, CollectiveKind kind = CollectiveKind::AllReduce) {
    CollectiveFlow flow;
    flow.cost.kind = kind;
    flow.cost.bytes = size;
    flow.latency = Ticks(latency);
    flow.transfer = Ticks(transfer);
    graph_.flows.push_back(flow);
    return static_cast<int>(graph_.flows.size()) - 1;
  }

  // Tasks of one rank must be added together, ranks in order.
  int pass(int rank, ActionKind kind, int stage, int microbatch, int program) {
    Task task;
    task.kind = TaskKind::Pass;
    task.lane = Lane::Compute;
    task.rank = rank;
    task.action.kind = kind;
    task.action.stage = stage;
    task.action.microbatch = microbatch;
    task.program = program;
    return add(task);
  }

  int add(const Task& task) {
    graph_.tasks.push_back(task);
    inputs_.emplace_back();
    for (int r = task.rank + 1; r <= graph_.ranks; ++r) ++graph_.rank_begin[r];
    return static_cast<int>(graph_.tasks.size()) - 1;
  }

  void needs(int consumer, int producer) { inputs_[consumer].push_back({producer, -1}); }

  void sends(int producer, int consumer, int link, bool backward = false) {
    const Task& from = graph_.tasks[producer];
    graph_.transfers.push_back({producer, consumer, link, from.action.microbatch, from.action.stage, backward});
    inputs_[consumer].push_back({producer, static_cast<std::int32_t>(graph_.transfers.size()) - 1});
  }

  Task& task(int t) { return graph_.tasks[t]; }
  TaskGraph& graph() { return graph_; }

  TaskGraph build() {
    graph_.inputs.clear();
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      graph_.tasks[t].first_input = static_cast<std::int32_t>(graph_.inputs.size());
      graph_.tasks[t].inputs = static_cast<std::int32_t>(inputs_[t].size());
      graph_.inputs.insert(graph_.inputs.end(), inputs_[t].begin(), inputs_[t].end());
    }
    return graph_;
  }

 private:
  TaskGraph graph_;
  std::vector<std::vector<Input>> inputs_;
};

// The tasks of a schedule of lone F, I, W and B, in the schedule's order, ranks one after another.
inline TaskGraph graph_of(const PipelineOrder& order, const Tables& tables) {
  GraphBuilder builder(static_cast<int>(order.rank_begin.size()) - 1);
  for (std::size_t i = 1; i < tables.costs.size(); ++i) builder.program(tables.costs[i]);
  const auto rank_of = [&](int stage) { return order.stage_to_rank[stage]; };
  const auto before = [&](int stage) { return order.stage_before[stage]; };
  const auto after = [&](int stage) { return order.stage_after[stage]; };
  for (int s = 0; s < order.stages; ++s) {
    builder.link(rank_of(s), after(s) < 0 ? rank_of(s) : rank_of(after(s)), 0, tables.delays[forward_delay_entry(s)]);
    builder.link(rank_of(s), before(s) < 0 ? rank_of(s) : rank_of(before(s)), tables.delays[backward_delay_entry(s)], 0);
  }
  const std::size_t cells = static_cast<std::size_t>(order.stages * order.microbatches);
  std::vector<int> forward(cells, -1), gradient(cells, -1);
  const auto cell = [&](int stage, PackedAction a) {
    return static_cast<std::size_t>(stage * order.microbatches + microbatch_of(a));
  };
  const ActionKind kinds[] = {ActionKind::F, ActionKind::I, ActionKind::W, ActionKind::B};
  for (std::size_t r = 0; r + 1 < order.rank_begin.size(); ++r) {
    for (std::uint32_t i = order.rank_begin[r]; i < order.rank_begin[r + 1]; ++i) {
      const PackedAction a = order.actions[i];
      const Pass pass = pass_of(a);
      const int task = builder.pass(static_cast<int>(r), kinds[static_cast<int>(pass)], stage_of(a), microbatch_of(a),
                                    static_cast<int>(cost_entry(pass, stage_of(a))) - 1);
      if (pass == Pass::F) forward[cell(stage_of(a), a)] = task;
      if (pass == Pass::I || pass == Pass::B) gradient[cell(stage_of(a), a)] = task;
    }
  }
  const auto connect = [&](int producer, int consumer, int stage, int other, bool backward) {
    if (rank_of(stage) == rank_of(other)) {
      builder.needs(consumer, producer);
    } else {
      const auto entry = backward ? backward_delay_entry(stage) : forward_delay_entry(stage);
      builder.sends(producer, consumer, static_cast<int>(entry) - 1, backward);
    }
  };
  for (std::size_t i = 0; i < order.actions.size(); ++i) {
    const PackedAction a = order.actions[i];
    const int s = stage_of(a), task = static_cast<int>(i);
    if (pass_of(a) == Pass::W) {
      builder.needs(task, gradient[cell(s, a)]);
    } else if (pass_of(a) == Pass::F) {
      if (before(s) >= 0) connect(forward[cell(before(s), a)], task, before(s), s, false);
    } else {
      builder.needs(task, forward[cell(s, a)]);
      if (after(s) >= 0) connect(gradient[cell(after(s), a)], task, after(s), s, true);
    }
  }
  return builder.build();
}

// The definition, replayed until nothing changes: what every faster way must give.
inline std::vector<double> naive_ends(const TaskGraph& graph) {
  const std::size_t n = graph.tasks.size();
  std::vector<double> start(n, 0), end(n, 0), ready(n, 0);
  const auto duration = [&](const Task& task) {
    if (task.program >= 0) return graph.programs[task.program].duration.base();
    if (task.flow < 0) return 0.0;
    const CollectiveFlow& flow = graph.flows[task.flow];
    return (flow.latency + flow.transfer).base();
  };
  const auto share = [&](const Task& task, std::size_t member) {  // of a group that follow one another
    const Program& program = graph.programs[task.program];
    double sum = 0;
    for (std::int32_t s = program.first_step; s < program.first_step + program.steps; ++s)
      if (graph.steps[s].member == member) sum += graph.steps[s].time.base();
    return sum;
  };
  const auto shared = [&](const Task& task) {
    return task.kind == TaskKind::Collective && std::any_of(graph.cross_rank_flows.begin(), graph.cross_rank_flows.end(),
                                                            [&](const auto& f) { return f.flow == task.flow; });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t t = 0; t < n;) {
      const std::size_t size = std::max<std::size_t>(1, graph.tasks[t].group_size);
      double begin = 0;
      for (std::size_t k = t; k < t + size; ++k) {
        const Task& task = graph.tasks[k];
        for (std::size_t other = 0; other < n; ++other) {
          const Task& o = graph.tasks[other];
          if (o.rank == task.rank && o.lane == task.lane && other < t) {
            begin = std::max(begin, end[other]);
            for (const Transfer& transfer : graph.transfers) {
              if (!o.waits_for_sends || transfer.producer != static_cast<int>(other)) continue;
              // Only the next task of the lane waits; later ones come after it anyway.
              const TransferLink& link = graph.links[transfer.link];
              begin = std::max(begin, ready[other] + (link.latency + link.transfer).base());
            }
          }
          // Partners in one flow start together.
          if (shared(task) && shared(o) && o.flow == task.flow) begin = std::max(begin, start[other]);
        }
        for (int i = 0; i < task.inputs; ++i) {
          const Input& input = graph.inputs[task.first_input + i];
          if (input.task >= static_cast<int>(t) && input.task < static_cast<int>(t + size)) continue;
          double arrival = ready[input.task];
          if (input.transfer >= 0) {
            const Transfer& transfer = graph.transfers[input.transfer];
            const TransferLink& link = graph.links[transfer.link];
            arrival += (link.latency + link.transfer).base();
          }
          begin = std::max(begin, arrival);
        }
      }
      double at = begin;
      for (std::size_t k = t; k < t + size; ++k) {
        changed |= start[k] != at;
        start[k] = at;
        at += size == 1 ? duration(graph.tasks[k]) : share(graph.tasks[k], k - t);
        end[k] = at;
      }
      for (std::size_t k = t; k < t + size; ++k) {
        changed |= ready[k] != at;
        ready[k] = at;
      }
      t += size;
    }
  }
  return end;
}

}  // namespace panpipe::testing
