// Extracts the collectives of a trace as a table that a cluster file can name.
#pragma once

#include <string>

#include "costmodel/cluster/collective_tables.hpp"
#include "jobs/kineto/kineto_trace.hpp"

namespace panpipe::jobs {

// Takes the least time of each kind, form of group and size, because the others include the wait for the slowest rank. Leaves out
// collectives without group, nodes or bytes in the trace. Throws InputError if none is left.
CollectiveTables collectives_of(const KinetoTrace& trace, const std::string& file);

}  // namespace panpipe::jobs
