// The training and evaluation data of a run, from the scenario's `data`.
#pragma once

#include <cstdint>

#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

struct TrainingData {
  DataSource training;
  std::int64_t samples = 0;   // per pass over the data (an epoch); 0: synthetic data, which are endless
  DataSource validation;      // microbatches from 0; empty: no data are held out
  std::int64_t held_out = 0;  // samples for validation
};

// Opens and checks the data. Throws InputError at the scenario's `data` for names, shapes or element types that the model's
// inputs lack, and for files that are too short. Token ids beyond the vocabulary are reported when they are read. `samples_done`:
// samples that an earlier part of the run has read, which need not be whole microbatches of this size; the microbatches of
// `training` count from the last started one. The run must outlive the result.
TrainingData training_data(const PreparedRun& run, std::int64_t samples_done = 0);

}  // namespace panpipe::exec
