// Sequences with context degrees of their own: `batch.lengths: {context: dynamic}` (docs/unequal-microbatches.md). The ranks of
// data x context are one pool, which each microbatch divides anew. Scenario::lengths then has an entry for each rank of it.
#pragma once

#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/pack_samples.hpp"

namespace panpipe {

bool has_dynamic_context(const Scenario& scenario);

// The degrees under which sequences of that length run: the same ranks, with a context degree of their own where it is dynamic.
Degrees degrees_of_length(const Scenario& scenario, const Degrees& degrees, int length);

// The length of every sequence that Scenario::lengths lists, each once however many ranks share it.
std::vector<int> listed_sequences(const Scenario& scenario);

// Of dynamic context: for each microbatch the length whose ranks have most work. All ranks of the pool wait for them.
std::vector<int> slowest_lengths(const Scenario& scenario);

// What the floating-point operations of a sequence of one sample make of tokens and squares; `tokens`: about so many.
SequenceWork sequence_work(const Scenario& scenario, int tokens);

}  // namespace panpipe
