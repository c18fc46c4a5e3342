// Passes before their times are rounded: the costs of units one behind another, the steps that they make, host effects and jitter
// worked in. Private to this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

// --- pass_draft.cpp: pieces of passes ---
// Of one slice of the sequence, from 0; without splits the whole is slice 0.
PassDraft draft_forward(const Lowering& lowering, const StageInfo& info, int slice);
PassDraft draft_weight(const Lowering& lowering, const StageInfo& info, int slice);
PassDraft draft_recompute(const Lowering& lowering, const StageInfo& info, Recompute mode, int slice);
// Block by block from the last: its forward again where the plan says so, then its units' gradients.
PassDraft draft_backward(const Lowering& lowering, const StageInfo& info, bool with_weight, int slice);

// --- pass_steps.cpp: steps of passes ---
// A collective, or compute: seconds, by what makes them longer.
struct DraftStep {
  ProgramStep step;
  double given = 0;        // nothing does
  double launched = 0;     // the host and jitter
  double synchronous = 0;  // behind a meeting of host and device: jitter
};

struct DraftProgram {
  std::vector<DraftStep> steps;
  std::vector<MemberEnds> ends;                      // per member
  std::vector<std::pair<int, std::int32_t>> trains;  // and how many steps come before their gradients are whole
  std::vector<std::int32_t> part_ends;               // of a pass alone: how many steps come before the end of each part
};

// A piece by itself.
DraftStep step_of(const Lowering& lowering, const UnitPiece& piece);
// A pass by itself. Compute that nothing between can be told from is one step.
DraftProgram steps_alone(const Lowering& lowering, const PassDraft& pass);

// Seconds on idle links, as long as a pass holds the compute lane, without the host's part and jitter: behind a meeting of host
// and device, and the rest.
struct DeviceTime {
  double launched = 0, synchronous = 0;
};
DeviceTime device_time(const Lowering& lowering, const PassDraft& draft);

// Stretches compute until the draft takes the time of its launches, then jitter, rounds each step, and adds the program.
// `whole`: what it was made of. `draft` is then as the program is.
std::int32_t add_program(Lowering& lowering, DraftProgram& draft, const PassDraft& whole);
// Fills duration and breakdown of a program whose steps are there.
void measure_alone(const TaskGraph& graph, Program& program);

// --- braids.cpp: adds the program of a group of passes, from the programs that they have alone, unless it is there ---
void add_group_program(Lowering& lowering, const std::vector<std::int32_t>& members);

}  // namespace panpipe
