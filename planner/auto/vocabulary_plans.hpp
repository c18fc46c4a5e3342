// Plans whose vocabulary is cut over the stages (docs/models/vocabulary.md).
#pragma once

#include "planner/planner.hpp"

namespace panpipe::planner {

// Whether the scenario leaves open where the vocabulary lies: `schedule: {vocabulary: auto}`.
bool vocabulary_is_open(const Scenario& scenario);

// The answer of a search for plans with a whole vocabulary, and the plans with a cut one: of the degrees that the method
// searches, every order is estimated, with 1 barrier, and the best are simulated. Nothing is proved of them.
void add_vocabulary_plans(const Experiment& experiment, const SearchOptions& options, Answer& answer);

}  // namespace panpipe::planner
