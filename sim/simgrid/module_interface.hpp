// The interface of the SimGrid module to its loader. Only inline or abstract types cross it.
#pragma once

#include "sim/flow_backend.hpp"

// Returns a back end at time 0. Call it once per process. `network` must outlive it.
extern "C" panpipe::sim::FlowBackend* panpipe_simgrid_backend(const panpipe::sim::Network* network);
