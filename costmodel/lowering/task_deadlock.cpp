// Words for an order of tasks that cannot finish.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

namespace {

std::string kind_text(const Task& task) {
  if (task.kind == TaskKind::Optimizer) return "optimizer";
  if (task.kind != TaskKind::Collective) return to_text(task.action);
  return task.action.stage < 0 ? "collective" : fmt::format("{} of stage {}", name_of(task.action.kind), task.action.stage);
}

std::string task_text(const TaskGraph& graph, std::int32_t task) {
  const Task& t = graph.tasks[task];
  return fmt::format("{} on rank {}", kind_text(t), t.rank);
}

// Why `task` waits for `other`: data from it, the order of their lane, or a send that must be taken.
std::string_view reason(const TaskGraph& graph, std::int32_t task, std::int32_t other) {
  const Task& t = graph.tasks[task];
  const auto begin = graph.inputs.begin() + t.first_input;
  const bool data = std::any_of(begin, begin + t.inputs, [&](const Input& input) { return input.task == other; });
  if (data) return "needs";
  return graph.rendezvous && t.rank != graph.tasks[other].rank ? "waits for a send that is taken only after" : "stands behind";
}

std::string waits_text(const TaskGraph& graph, std::int32_t task) {
  const Task& t = graph.tasks[task];
  std::string text;
  for (std::int32_t k = 0; k < t.inputs; ++k) {
    const Input& input = graph.inputs[t.first_input + k];
    const Task& source = graph.tasks[input.task];
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        source.rank == t.rank ? kind_text(source) : fmt::format("{} of rank {}", kind_text(source), source.rank));
  }
  return text.empty() ? "its place in the order" : text;
}

}  // namespace

std::string to_text(const Deadlock& deadlock, const TaskGraph& graph) {
  std::string text = "the schedule cannot finish:";
  for (std::size_t rank = 0; rank < deadlock.blocked.size(); ++rank) {
    const std::int32_t task = deadlock.blocked[rank];
    if (task < 0) {
      text += fmt::format("\n  rank {} has finished", rank);
    } else {
      text += fmt::format("\n  rank {} is blocked at {}, which needs {}", rank, kind_text(graph.tasks[task]),
                          waits_text(graph, task));
    }
  }
  if (deadlock.cycle.empty()) return text;
  text += "\n  the cycle:";
  for (std::size_t k = 0; k < deadlock.cycle.size(); ++k) {
    const std::int32_t task = deadlock.cycle[k];
    const std::int32_t next = deadlock.cycle[(k + 1) % deadlock.cycle.size()];
    text += fmt::format("\n    {} {} {}", task_text(graph, task), reason(graph, task, next), task_text(graph, next));
  }
  return text;
}

}  // namespace panpipe
