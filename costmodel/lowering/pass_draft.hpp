// Passes before their times are rounded: the costs of consecutive units, and the steps made of them, with host effects and jitter
// added. Private to this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

// --- pass_draft.cpp: pieces of passes ---
// Of an F, I, W, B or R of the stage, for one slice of the sequence, from 0; without splits the whole is slice 0. A backward goes
// through the blocks from the last: it runs a block's forward again if the plan recomputes it, then its units' gradients.
PassDraft draft_pass(const Lowering& lowering, const StageUnits& info, ActionKind kind, int slice);

// --- pass_steps.cpp: steps of passes ---
// A collective, or compute. Compute is in seconds, separated by the effects that prolong it.
struct DraftStep {
  ProgramStep step;
  double given = 0;        // prolonged by nothing
  double launched = 0;     // prolonged by the host and jitter
  double synchronous = 0;  // after a synchronisation of host and device: prolonged by jitter
};

struct DraftProgram {
  std::vector<DraftStep> steps;
  std::vector<MemberEnds> ends;                      // per member
  std::vector<std::pair<int, std::int32_t>> trains;  // train -> steps before its gradients are complete
  std::vector<std::int32_t> part_ends;               // of a lone pass: steps before the end of each part
};

// The step of one piece.
DraftStep step_of(const Lowering& lowering, const UnitPiece& piece);
// The steps of a lone pass. Adjacent compute that nothing observes in between becomes one step.
DraftProgram steps_alone(const Lowering& lowering, const PassDraft& pass);

// Seconds for which a pass holds the compute lane on idle links, without the host's part and jitter, divided into the part after
// a synchronisation of host and device and the rest.
struct DeviceTime {
  double launched = 0, synchronous = 0;
};
DeviceTime device_time(const Lowering& lowering, const PassDraft& draft);

// Stretches compute to the time of the draft's launches, adds jitter, rounds each step, and adds the program. `whole` is the pass
// that the draft was made from. `draft` is updated to match the program.
std::int32_t add_program(Lowering& lowering, DraftProgram& draft, const PassDraft& whole);
// Fills duration and breakdown of a program from its steps.
void measure_alone(const TaskGraph& graph, Program& program);

// --- braids.cpp: adds the program of a group of passes, made from their own programs, unless it already exists ---
void add_group_program(Lowering& lowering, const std::vector<std::int32_t>& members);

}  // namespace panpipe
