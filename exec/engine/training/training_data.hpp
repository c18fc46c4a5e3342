// What a run trains on and is evaluated on, as the scenario's `data` says.
#pragma once

#include <cstdint>

#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

struct TrainingData {
  DataSource training;
  std::int64_t samples = 0;   // in a pass over the data (an epoch); 0: synthetic data, which have no end
  DataSource validation;      // microbatches from 0; empty: nothing is held out
  std::int64_t held_out = 0;  // samples for validation
};

// Opens and checks. InputError at the scenario's `data`: names, shapes, element types that the model's inputs do not have, files
// that are too short; ids beyond the vocabulary, of tokens when they are read. `samples_done`: that an earlier part of the run
// has read, which may not be whole microbatches of this size; the microbatches of `training` count from the last one that is
// begun. The run must outlive what comes back.
TrainingData training_data(const PreparedRun& run, std::int64_t samples_done = 0);

}  // namespace panpipe::exec
