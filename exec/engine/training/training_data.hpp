// What a run trains on, as the scenario's `data` says.
#pragma once

#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// Opens and checks. InputError at the scenario's `data`: names, shapes, element types that the model's inputs do not have, ids
// beyond the vocabulary, files that are too short. The run must outlive what comes back.
DataSource training_data(const PreparedRun& run);

}  // namespace panpipe::exec
