// A step small enough to check by hand: two ranks of two tensor-parallel devices each, one microbatch, an optimizer.
#pragma once

#include "costmodel/estimate/estimate.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"

namespace panpipe::testing {

inline constexpr double kMs = 1e9;  // ticks

// Times in ms. Forward: compute 1, all-reduce 0.5, compute 1 (2.5, of which 0.5 exposed). Backward 4. Transfers 0.2 + 0.3.
//   rank 0: 0F0 0..2.5                                     0B0 10..14   all-reduce of gradients 14..15   OPT 15..16
//   rank 1:            1F0 3..5.5  1B0 5.5..9.5                         OPT 9.5..10.5
inline TaskGraph small_step() {
  GraphBuilder g(2);
  TaskGraph& graph = g.graph();
  graph.degrees.tensor = 2;
  graph.devices = std::vector<int>{0, 1, 2, 3};
  graph.model_flops_per_step = flops(3.2e12);
  graph.samples_per_step = 4;
  graph.peak_per_device = tflops_per_s(100);
  const int tensor_flow = g.flow(0.1 * kMs, 0.4 * kMs, mib(8)), gradients = g.flow(0, 1 * kMs, mib(32));
  const int forward = g.program({{.time = Ticks(1 * kMs)},
                                 {.collective = true, .flow = tensor_flow, .time = Ticks(0.5 * kMs)},
                                 {.time = Ticks(1 * kMs)}}),
            backward = g.program(4 * kMs), optimizer = g.program(1 * kMs);
  const int there = g.link(0, 1, 0.2 * kMs, 0.3 * kMs, mib(4)), back = g.link(1, 0, 0.2 * kMs, 0.3 * kMs, mib(4));

  const int f0 = g.pass(0, ActionKind::F, 0, 0, forward), b0 = g.pass(0, ActionKind::B, 0, 0, backward);
  Task reduce;
  reduce.kind = TaskKind::Collective;
  reduce.lane = Lane::Data;
  reduce.action.kind = ActionKind::ReduceGrad;
  reduce.action.stage = 0;
  reduce.flow = gradients;
  const int r0 = g.add(reduce);
  Task opt;
  opt.kind = TaskKind::Optimizer;
  opt.lane = Lane::Compute;
  opt.action.kind = ActionKind::Opt;
  opt.program = optimizer;
  const int o0 = g.add(opt);
  const int f1 = g.pass(1, ActionKind::F, 1, 0, forward), b1 = g.pass(1, ActionKind::B, 1, 0, backward);
  opt.rank = 1;
  g.add(opt);
  g.needs(r0, b0);
  g.needs(o0, r0);
  g.sends(f0, f1, there);
  g.sends(b1, b0, back, true);
  for (const int f : {f0, f1}) g.task(f).take = mib(100), g.task(f).temporary = mib(30);
  for (const int b : {b0, b1}) g.task(b).give = mib(100), g.task(b).temporary = mib(50);
  RankMemory memory;
  memory.parts = {{MemoryUse::Parameters, mib(400)}, {MemoryUse::Context, mib(200)}};
  memory.allocator_factor = 1.1;
  memory.limit = mib(800);
  graph.memory = {memory, memory};
  return g.build();
}

}  // namespace panpipe::testing
