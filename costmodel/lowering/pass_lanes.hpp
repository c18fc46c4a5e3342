// The execution of passes on the two lanes of a rank, compute and tensor-parallel collectives. The rules, for a cell (a lone
// pass, or a group whose members share one program):
//  * both lanes serve in program order; a collective is issued when the compute step before it in its pass has ended;
//  * a compute step waits for its pass's inputs (of all passes of a cell with `all_inputs`) and for the last collective of its
//    pass, unless it is `free`; a `chunk` waits for the one before the last;
//  * compute slows down while a collective runs; collectives do not;
//  * the next cell gets the compute lane when the last step and the cell's collectives have ended, or with `collectives_run_on`
//    when the last compute step has.
// docs/models/braids.md. Times are ticks in doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

// The overlap slow-down, defined only here: the duration of `work` while collectives run during its first `overlap`. Compute
// loses a share `loss` of the overlapped time, so its rate there is 1 - loss.
inline double overlapped_time(double work, double overlap, double loss) {
  if (overlap <= 0 || loss <= 0) return work;
  const double all_overlapped = loss < 1 ? work / (1 - loss) : overlap;
  return work + loss * std::min(overlap, all_overlapped);
}

struct PassLanes {
  double compute = 0, tensor = 0;  // time from which each lane is free
  bool whole_ticks = true;         // compute times next to collectives are rounded
};

// A member of a cell. The caller sets `input` and `output_steps`; the run sets the rest.
struct MemberRun {
  double input = 0;                // arrival of its last input
  std::int32_t output_steps = -1;  // as in Task
  double start = 0, compute_end = 0, collective_end = 0;
  double collective_before = 0;  // end of the collective before the last
  double busy = 0;               // time computing, slow-down included
  double output = 0;
  bool started = false;

  double end() const { return std::max(compute_end, collective_end); }
};

// Runs a cell on idle links. Calls `on_collective(step, start, end)` for each collective, and `on_steps(steps, time)` after each
// step with the number of finished steps and the end of the step's member. Returns the end of the cell.
template <class OnCollective, class OnSteps>
double run_steps(const ProgramStep* steps, const Program& program, bool collectives_run_on, PassLanes& lanes, MemberRun* members,
                 OnCollective on_collective, OnSteps on_steps) {
  const std::int32_t count = program.members;
  if (program.all_inputs) {
    for (std::int32_t m = 1; m < count; ++m) members[0].input = std::max(members[0].input, members[m].input);
    for (std::int32_t m = 1; m < count; ++m) members[m].input = members[0].input;
  }
  double collectives_end = 0;
  for (std::int32_t s = 0; s < program.steps; ++s) {
    const ProgramStep& step = steps[s];
    MemberRun& run = members[step.member];
    double start = std::max(lanes.compute, run.input);
    if (step.collective) {
      start = std::max(start, lanes.tensor);
      run.collective_before = program.atomic ? collectives_end : run.collective_end;
      lanes.tensor = run.collective_end = start + step.time.base();
      collectives_end = std::max(collectives_end, lanes.tensor);
      on_collective(program.first_step + s, start, lanes.tensor);
    } else {
      if (step.chunk)
        start = std::max(start, run.collective_before);
      else if (!step.free)
        start = std::max(start, program.atomic ? collectives_end : run.collective_end);
      double length = overlapped_time(step.time.base(), lanes.tensor - start, program.overlap_loss);
      if (lanes.whole_ticks) length = std::nearbyint(length);
      lanes.compute = run.compute_end = start + length;
      run.busy += length;
    }
    if (!run.started) run.start = start;
    run.started = true;
    if (run.output_steps == s + 1) run.output = run.end();
    on_steps(s + 1, run.end());
  }
  double end = collectives_end;
  for (std::int32_t m = 0; m < count; ++m) {
    MemberRun& run = members[m];
    if (!run.started) run.start = run.compute_end = std::max(lanes.compute, run.input);  // a pass without work
    end = std::max(end, run.compute_end);
  }
  for (std::int32_t m = 0; m < count; ++m)
    if (members[m].output_steps < 0) members[m].output = end;
  lanes.compute = std::max(lanes.compute, collectives_run_on ? 0 : end);
  for (std::int32_t m = 0; m < count; ++m)
    if (!members[m].started) lanes.compute = std::max(lanes.compute, members[m].compute_end);
  return end;
}

template <class OnCollective, class OnSteps>
double run_cell(const TaskGraph& graph, const Program& program, PassLanes& lanes, MemberRun* members, OnCollective on_collective,
                OnSteps on_steps) {
  return run_steps(graph.steps.data() + program.first_step, program, graph.collectives_run_on, lanes, members, on_collective,
                   on_steps);
}

inline double run_cell(const TaskGraph& graph, const Program& program, PassLanes& lanes, MemberRun* members) {
  return run_cell(
      graph, program, lanes, members, [](std::int32_t, double, double) {}, [](std::int32_t, double) {});
}

// Per task: true if its cell takes exactly its program's duration on idle links from the arrival of its inputs, and gives all
// outputs at its end. One number then describes it. False for
//  * a group whose members wait for separate inputs;
//  * a cell that gives an output before its end;
//  * any cell of a graph in which collectives outlive their cell: they run next to the following one.
// True for tasks that are not passes.
std::vector<bool> fixed_cells(const TaskGraph& graph);
// True if this holds for all tasks: a compiled order (estimate/compile.hpp) is then as exact as the steps.
bool durations_are_fixed(const TaskGraph& graph);

}  // namespace panpipe
