// A pass of a stage before its times are rounded: the costs of its units one behind another, host effects and jitter worked in.
// Private to this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/plan/lowering.hpp"

namespace panpipe {

// A step in seconds, before scaling and rounding.
struct Draft {
  bool collective = false;
  bool overlapped = false;
  bool synchronous = false;  // behind a meeting of host and device: outside the norm
  bool closed = false;       // compute: nothing may be merged into it any more
  int train = -1;            // behind it gradients of this train are whole
  double time = 0;
  std::int32_t flow = -1;
};

struct PassDraft {
  std::vector<Draft> steps;
  std::vector<UnitPiece> pieces;
  std::vector<UnitPiece> bare;  // by units: `pieces` before host effects and jitter
  Breakdown breakdown;
  int launches = 0;
  bool runs_on = false;  // the next pass may start beside the last collectives: the host has launched up to the last compute step
};

// Of one slice of the sequence, from 0; without splits the whole is slice 0.
PassDraft draft_forward(const Lowering& lowering, const StageInfo& info, int slice);
PassDraft draft_weight(const Lowering& lowering, const StageInfo& info, int slice);
PassDraft draft_recompute(const Lowering& lowering, const StageInfo& info, Recompute mode, int slice);
// Block by block from the last: its forward again where the plan says so, then its units' gradients.
PassDraft draft_backward(const Lowering& lowering, const StageInfo& info, bool with_weight, int slice);

// Time of the draft on idle links, as long as it holds the compute lane: the part behind a meeting of host and device, or the
// rest.
double device_time(const PassDraft& draft, bool synchronous_part);
// Stretches the compute of the draft so that without its synchronous part it takes `factor` times as long, then jitter.
void apply_host_and_jitter(const Lowering& lowering, PassDraft& draft, double factor);

// By train of the stage: how many steps of the pass come before its gradients are whole; -1 = all.
std::vector<std::int32_t> steps_of_trains(const std::vector<std::pair<int, std::int32_t>>& found, std::size_t trains,
                                          std::int32_t steps);

// Ends of rounded steps on idle links.
Ticks idle_duration(const ProgramStep* first, const ProgramStep* last);

// --- braids.cpp ---
struct WovenProgram {
  std::vector<ProgramStep> steps;
  std::vector<UnitPiece> pieces;  // of each step, the first
  std::vector<MemberEnds> ends;
  std::vector<std::pair<int, std::int32_t>> trains;  // and how many steps come before their gradients are whole
};
// Weaves the members' pieces; one member, or all of them where `atomic`, follow one another.
WovenProgram weave(const TaskGraph& graph, const std::vector<const std::vector<UnitPiece>*>& members, bool atomic);
std::int32_t add_unit_program(Lowering& lowering, const WovenProgram& woven, int members, bool atomic, const Breakdown& sum);
// Stretches the compute of a woven group, the last program, as that of a lone pass is: to the time of its members' launches.
void apply_host_and_jitter(Lowering& lowering, const WovenProgram& woven, int launches, int site);

}  // namespace panpipe
