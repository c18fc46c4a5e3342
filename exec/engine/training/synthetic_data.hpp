// Seeded data in the shapes of the graph's inputs. A sample is the same in every placement.
#pragma once

#include <cstdint>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

DataSource synthetic_data(const OperatorGraph& graph, std::uint64_t seed);

}  // namespace panpipe::exec
