#include "sim/simulate.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/option_fault.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/pass_lanes.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "schedule/rolling.hpp"
#include "sim/event_loop.hpp"
#include "sim/flow_solver.hpp"
#include "sim/simgrid_module.hpp"

namespace panpipe::sim {
namespace {

std::vector<bool> merged_ranks(const TaskGraph& graph, const Platform& platform, const FlowTable& flows, bool merge) {
  if (!merge) return std::vector<bool>(at(graph.ranks), false);
  return mergeable_ranks(platform, graph.ranks, flows.pass_rates());
}

EventRecord run(const EventInput& input, Backend backend) {
  if (backend == Backend::SimGrid) return run_events_in_simgrid(input);
  FlowSolver solver(input.folding->network);
  return run_events(input, solver);
}

// The class that is the last to finish: its times are shown, so that they explain the step time.
std::int32_t last_class(const EventRecord& record, int classes) {
  std::vector<double> ends(at(classes), 0);
  for (std::size_t i = 0; i < record.task_end.size(); ++i)
    ends[i % at(classes)] = std::max(ends[i % at(classes)], record.task_end[i]);
  return static_cast<std::int32_t>(std::max_element(ends.begin(), ends.end()) - ends.begin());
}

std::vector<Ticks> of_class(const std::vector<double>& values, int classes, std::int32_t cls) {
  std::vector<Ticks> result;
  result.reserve(values.size() / at(classes));
  for (std::size_t i = at(cls); i < values.size(); i += at(classes)) result.emplace_back(values[i]);
  return result;
}

// Inside cells that were one timer.
void add_collectives(const TaskGraph& graph, const std::vector<bool>& timers, TaskTimes& times) {
  std::vector<MemberRun> runs;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (!timers[t] || task.group_size == 0) continue;
    const Program& program = graph.programs[task.program];
    const auto last = std::max_element(times.task_end.begin() + static_cast<std::ptrdiff_t>(t),
                                       times.task_end.begin() + static_cast<std::ptrdiff_t>(t + task.group_size));
    const double begun = (*last - program.duration).base();
    PassLanes lanes{begun, begun};
    runs.assign(program.members, {});
    run_cell(
        graph, program, lanes, runs.data(),
        [&](std::int32_t step, double start, double end) {
          const auto member = static_cast<std::int32_t>(t) + graph.steps[step].member;
          times.collectives.push_back({member, step, Ticks(start), Ticks(end)});
        },
        [](std::int32_t, double) {});
  }
}

TaskTimes times_of(const EventInput& input, const EventRecord& record) {
  const TaskGraph& graph = *input.graph;
  const int classes = input.folding->classes;
  const std::int32_t cls = last_class(record, classes);
  TaskTimes times;
  times.task_start = of_class(record.task_start, classes, cls);
  times.task_end = of_class(record.task_end, classes, cls);
  times.transfer_start = of_class(record.transfer_start, classes, cls);
  times.transfer_end = of_class(record.transfer_end, classes, cls);
  times.task_waiting = of_class(record.waiting, classes, cls);
  for (const CollectiveRecord& c : record.collectives)
    if (c.cls == cls) times.collectives.push_back({c.task, c.step, Ticks(c.start), Ticks(c.end)});
  add_collectives(graph, input.timers, times);
  for (const Transfer& transfer : graph.transfers) {
    const FlowSpec& spec = input.flows->transfer(transfer.link, cls);
    times.transfer_alone.push_back(spec.latency + spec.transfer);
  }
  return times;
}

// Of several steps in a row the mean of all, which take `last` together.
std::vector<LinkContention> contention_of(const EventRecord& record, const Network& network, Duration last, int steps) {
  std::vector<LinkContention> rows;
  for (std::size_t i = 0; i < network.resources.size(); ++i) {
    const ResourceUse& use = record.uses[i];
    const SharedResource& resource = network.resources[i];
    if (use.busy <= 0) continue;
    LinkContention row;
    row.resource = resource.alike > 1 ? fmt::format("{} and {} alike", resource.name, resource.alike - 1) : resource.name;
    row.busy = to_duration(Ticks(use.busy)) / steps;
    row.shared = to_duration(Ticks(use.shared)) / steps;
    row.lost = to_duration(Ticks(use.lost)) / steps;
    row.flows = static_cast<int>(use.flows);
    row.utilisation = last > Duration(0) ? use.bytes / (resource.capacity * last.base()) : 0;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const LinkContention& a, const LinkContention& b) {
    return a.lost != b.lost ? a.lost > b.lost : a.shared > b.shared;
  });
  return rows;
}

}  // namespace

Backend backend_named(const std::string& name) {
  if (name == "simgrid") return Backend::SimGrid;
  if (name == "flow") return Backend::FlowSolver;
  throw unknown_choice("backend", name, {"simgrid", "flow"});
}

Timeline simulate_for_search(const TaskGraph& graph, const Cluster& cluster) {
  return simulate(graph, cluster, {.backend = Backend::FlowSolver, .merge = true, .fold = true});
}

bool has_backend(Backend backend) { return why_no_backend(backend).empty(); }

std::string why_no_backend(Backend backend) { return backend == Backend::FlowSolver ? "" : why_no_simgrid(); }

Timeline simulate(const TaskGraph& graph, const Cluster& cluster, const Options& options, Statistics* statistics) {
  // First on idle links: it refuses orders that cannot finish, and the difference is the cost of contention.
  const TaskTimes idle = estimate_times(graph);
  const Platform platform(graph, cluster);
  const TaskNet net(graph);
  Folding folding = fold_groups(platform, options.fold);
  const FlowTable flows(graph, platform, folding);
  EventInput input{&graph, &net, &folding, &flows, merged_ranks(graph, platform, flows, options.merge), {}};
  input.timers = cells_as_timers(graph, folding, input.merged);
  const EventRecord record = run(input, options.backend);
  PANPIPE_CHECK(record.finished == static_cast<std::int64_t>(graph.tasks.size()) * folding.classes,
                fmt::format("{} of {} tasks finished", record.finished, graph.tasks.size() * at(folding.classes)));

  const TaskTimes times = times_of(input, record);
  Timeline timeline = make_timeline(graph, times, TimelineKind::Simulated);
  double last = 0;
  for (const double end : record.task_end) last = std::max(last, end);
  timeline.contention_lost = to_duration(step_time(graph, times) - step_time(graph, idle));
  const std::optional<RolledSteps> rolled = rolled_steps(graph, times);
  const int steps = rolled ? rolled->steps + kStepsBefore + kStepsAfter : 1;
  timeline.contention = contention_of(record, folding.network, to_duration(Ticks(last)), steps);
  if (statistics) {
    statistics->activities = record.activities;
    statistics->flows = record.flows;
    statistics->folded_devices = platform.pipeline_groups() / folding.classes;
    statistics->merged = std::all_of(input.merged.begin(), input.merged.end(), [](bool merged) { return merged; });
  }
  return timeline;
}

}  // namespace panpipe::sim
