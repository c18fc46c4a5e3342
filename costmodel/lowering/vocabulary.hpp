// A vocabulary that is cut over all ranks (schedule/vocabulary.hpp): what a rank's share of it costs and holds, and its
// exchanges, which run in one order on all ranks, on a lane of their own. Private to this folder. docs/models/vocabulary.md has
// the equations.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/held_parameters.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe {

struct Lowering;
struct PassMemory;

// Filled by make_vocabulary().
struct VocabularyWork {
  std::vector<std::array<std::int32_t, 4>> programs;  // per rank: of E, S, T, G
  std::array<std::int32_t, kVocabularyExchanges> flows{};
  std::vector<VocabularyTurn> turns;            // of the lane of every rank
  std::vector<std::int32_t> makers, exchanges;  // by exchange, rank, microbatch: tasks that it waits for, its own; -1 = none
};

// Programs and flows of the order's vocabulary passes; nothing if it has none. Throws InputError where replicas divide gradients
// or parameters.
void make_vocabulary(Lowering& lowering);
// What a rank's share of the vocabulary adds to the parameters of its stages.
HeldParameters vocabulary_share(const Lowering& lowering, int rank);
PassMemory vocabulary_memory(const Lowering& lowering, int rank, ActionKind kind);

// Makes the task of a pass E, S, T or G. The caller adds it to the rank's compute lane.
Task vocabulary_pass(const Lowering& lowering, int rank, const Action& action);
// Any pass of a rank is this task.
void note_vocabulary_maker(Lowering& lowering, int rank, const Action& action, std::int32_t task);
// The tasks of a rank's vocabulary lane, behind its row.
void add_vocabulary_lane(Lowering& lowering, int rank);
// Appends to TaskGraph::inputs what a pass takes from the exchanges of its rank.
void connect_vocabulary(Lowering& lowering, const Action& action, int rank);
// Once all tasks exist: the exchanges' flows run over all ranks.
void share_vocabulary_flows(Lowering& lowering);

}  // namespace panpipe
