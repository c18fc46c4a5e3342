#include "tests/costmodel/lowering/action_replay.hpp"

#include <algorithm>
#include <array>

#include "base/index.hpp"

namespace panpipe::test {

namespace {

double duration_of(const TaskGraph& graph, const Task& task) {
  if (task.flow >= 0) {
    const CollectiveFlow& flow = graph.flows[task.flow];
    return flow.latency.base() + flow.transfer.base();
  }
  return task.program < 0 ? 0 : graph.programs[task.program].duration.base();
}

// When the inputs of a task are there; negative when one is not made yet.
double inputs_ready(const TaskGraph& graph, const Replay& state, const Task& task, const std::vector<std::size_t>& own_group) {
  double ready = 0;
  for (std::int32_t k = 0; k < task.inputs; ++k) {
    const Input& input = graph.inputs[task.first_input + k];
    const auto source = static_cast<std::size_t>(input.task);
    if (std::find(own_group.begin(), own_group.end(), source) != own_group.end()) continue;
    if (state.end[source] < 0) return -1;
    double at = state.end[source];
    if (input.transfer >= 0) {
      const auto link = static_cast<std::size_t>(graph.transfers[input.transfer].link);
      at += graph.links[link].latency.base() + graph.links[link].transfer.base();
    }
    if (input.point >= 0) at += graph.points[input.point].at.base() - duration_of(graph, graph.tasks[source]);
    ready = std::max(ready, at);
  }
  return ready;
}

}  // namespace

Replay replay(const TaskGraph& graph) {
  Replay state;
  state.start.assign(graph.tasks.size(), -1);
  state.end.assign(graph.tasks.size(), -1);
  constexpr std::size_t kLanes = 7;
  std::vector<std::array<std::vector<std::size_t>, kLanes>> lanes(graph.ranks);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) lanes[graph.tasks[t].rank][at(graph.tasks[t].lane)].push_back(t);
  std::vector<std::array<std::size_t, kLanes>> next(lanes.size());
  std::vector<std::array<double, kLanes>> free_at(lanes.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < lanes.size(); ++rank) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const auto& queue = lanes[rank][lane];
        while (next[rank][lane] < queue.size()) {
          const std::size_t at = next[rank][lane];
          const std::size_t members = std::max<std::size_t>(1, graph.tasks[queue[at]].group_size);
          const std::vector<std::size_t> group(queue.begin() + static_cast<std::ptrdiff_t>(at),
                                               queue.begin() + static_cast<std::ptrdiff_t>(at + members));
          double ready = free_at[rank][lane];
          for (const std::size_t member : group) {
            const double there = inputs_ready(graph, state, graph.tasks[member], group);
            ready = there < 0 || ready < 0 ? -1 : std::max(ready, there);
          }
          if (ready < 0) break;
          for (const std::size_t member : group) state.start[member] = ready;
          const double now = ready + duration_of(graph, graph.tasks[group.front()]);
          for (const std::size_t member : group) state.end[member] = now;
          free_at[rank][lane] = now;
          state.makespan = std::max(state.makespan, now);
          next[rank][lane] += members;
          moved = true;
        }
      }
    }
  }
  state.finished = std::all_of(state.end.begin(), state.end.end(), [](double end) { return end >= 0; });
  return state;
}

std::int64_t static_bytes(const TaskGraph& graph, int rank) {
  std::int64_t sum = 0;
  for (const MemoryPart& part : graph.memory[rank].parts) sum += part.bytes.base();
  return sum;
}

std::int64_t peak_in_order(const TaskGraph& graph, int rank) {
  std::int64_t now = static_bytes(graph, rank), peak = now;
  for (const Task& task : graph.tasks) {
    if (task.rank != rank) continue;
    now += task.take.base();
    peak = std::max(peak, now + task.temporary.base());
    now -= task.give.base();
  }
  return peak;
}

int find_task(const TaskGraph& graph, const std::string& action) {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (graph.tasks[t].kind == TaskKind::Pass && to_text(graph.tasks[t].action) == action) return static_cast<int>(t);
  return -1;
}

double milliseconds_of(const TaskGraph& graph, const std::string& action) {
  return graph.programs[graph.tasks[find_task(graph, action)].program].duration.base() / 1e9;
}

}  // namespace panpipe::test
