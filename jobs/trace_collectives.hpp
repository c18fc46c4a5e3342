// The collectives of a trace as a table that a cluster file can name.
#pragma once

#include <string>

#include "costmodel/cluster/collective_tables.hpp"
#include "jobs/kineto_trace.hpp"

namespace panpipe::jobs {

// Of each kind, form of group and size the least time: the others hold the wait for the slowest rank. Those whose group, nodes or
// bytes the trace does not tell are left out. Throws InputError where none is left.
CollectiveTables collectives_of(const KinetoTrace& trace, const std::string& file);

}  // namespace panpipe::jobs
