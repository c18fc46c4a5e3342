#include "costmodel/lowering/pass_lanes.hpp"

#include <algorithm>

namespace panpipe {
namespace {

// A collective that no compute of its pass waits for ends when it will.
bool leaves_collectives(const TaskGraph& graph, const Program& program) {
  std::vector<bool> open(program.members, false);
  for (std::int32_t s = program.first_step; s < program.first_step + program.steps; ++s) {
    const ProgramStep& step = graph.steps[s];
    if (step.collective || (!step.free && !step.chunk)) open[step.member] = step.collective;
  }
  return std::find(open.begin(), open.end(), true) != open.end();
}

}  // namespace

std::vector<bool> fixed_cells(const TaskGraph& graph) {
  const auto leaves = [&](const Program& program) { return leaves_collectives(graph, program); };
  if (graph.collectives_run_on && std::any_of(graph.programs.begin(), graph.programs.end(), leaves))
    return std::vector<bool>(graph.tasks.size(), false);
  std::vector<bool> fixed(graph.tasks.size(), true);
  for (std::size_t t = 0; t < graph.tasks.size();) {
    const std::size_t end = std::min(graph.tasks.size(), t + std::max<std::size_t>(1, graph.tasks[t].group_size));
    bool own = end == t + 1 || graph.programs[graph.tasks[t].program].all_inputs;
    for (std::size_t member = t; member < end; ++member) own = own && graph.tasks[member].output_steps < 0;
    for (; t < end; ++t) fixed[t] = own;
  }
  return fixed;
}

bool durations_are_fixed(const TaskGraph& graph) {
  const std::vector<bool> fixed = fixed_cells(graph);
  return std::find(fixed.begin(), fixed.end(), false) == fixed.end();
}

}  // namespace panpipe
