// What the SimGrid module offers to its loader. Only inline or abstract types cross this border.
#pragma once

#include "sim/flow_backend.hpp"

// A back end at time 0, once per process. `network` must outlive it.
extern "C" panpipe::sim::FlowBackend* panpipe_simgrid_backend(const panpipe::sim::Network* network);
